"""Where gangs go.  The expectations are the field's: fewest leaves, fewest spines, best fit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.placement import place
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Placement, Pool

H100 = AcceleratorFacts(0, "nvidia", "H100", 80 << 30)


def node(name: str, leaf: str, spine: str = "s1", accelerators: int = 8, cores: int = 128) -> NodeFacts:
    cards = tuple(replace(H100, index=number) for number in range(accelerators))
    return NodeFacts(name, cores, 1 << 40, cards, leaf, spine, f"{leaf}-rack")


def pool_of(*leaves: tuple[str, str, int], accelerators: int = 8) -> Pool:
    nodes = [
        node(f"{leaf}-n{number}", leaf, spine, accelerators)
        for leaf, spine, count in leaves
        for number in range(count)
    ]
    pool = Pool(nodes)
    pool.up[:] = True
    return pool


def gang(count: int, accelerators: int = 8, **options: object) -> Demand:
    group = TaskDemand("worker", count, 1000, 0, accelerators)
    return Demand((group,), int(str(options.pop("least", count))), **options)  # type: ignore[arg-type]


def leaves(pool: Pool, placement: Placement) -> list[str]:
    return list(dict.fromkeys(pool.leaf_names[leaf] for leaf in pool.leaf[placement.nodes]))


def must(placement: Placement | None) -> Placement:
    assert placement is not None
    return placement


def hold(pool: Pool, name: str, accelerators: int) -> None:
    """Holds some accelerators of a node."""
    bits = np.array([(1 << accelerators) - 1], dtype=np.uint64)
    one = np.array([0], dtype=np.int64)
    pool.take(Placement(np.array([pool.index[name]]), bits, one, one, one))


def test_a_gang_that_fits_one_leaf_takes_the_fullest_one_that_holds_it() -> None:
    pool = pool_of(("a", "s1", 6), ("b", "s1", 4), ("c", "s1", 3))
    assert leaves(pool, must(place(pool, gang(4)))) == ["b"]
    assert leaves(pool, must(place(pool, gang(3)))) == ["c"]


def test_a_gang_over_leaves_takes_the_fewest_and_then_the_fewest_spines() -> None:
    pool = pool_of(("a", "s1", 4), ("b", "s1", 4), ("c", "s2", 4), ("d", "s2", 2))
    assert leaves(pool, must(place(pool, gang(8)))) == ["a", "b"]
    assert leaves(pool, must(place(pool, gang(6)))) == ["c", "d"]


def test_ranks_cross_each_switch_once() -> None:
    pool = pool_of(("a", "s1", 3), ("b", "s2", 3), ("c", "s1", 3))
    placement = must(place(pool, gang(9)))
    crossings = np.count_nonzero(np.diff(pool.leaf[placement.nodes]))
    assert crossings == 2
    assert np.count_nonzero(np.diff(pool.spine[placement.nodes])) == 1


def test_single_accelerators_fill_broken_nodes_and_broken_leaves_first() -> None:
    pool = pool_of(("a", "s1", 2), ("b", "s1", 2))
    hold(pool, "b-n1", 6)
    single = gang(1, accelerators=1)
    for _ in range(2):
        placement = must(place(pool, single))
        assert pool.facts[placement.nodes[0]].id == "b-n1"
        pool.take(placement)
    assert leaves(pool, must(place(pool, single))) == ["b"]


def test_soft_topology_does_not_leak_to_a_third_leaf() -> None:
    """volcano#4343: eight whole nodes on leaves of five belong on two leaves, however they are used."""
    pool = pool_of(("a", "s1", 5), ("b", "s1", 5), ("c", "s1", 5))
    hold(pool, "a-n0", 8)
    assert len(leaves(pool, must(place(pool, gang(8))))) == 2


@pytest.mark.parametrize(
    ("required", "count", "fits"),
    [("leaf", 4, True), ("leaf", 5, False), ("spine", 8, True), ("spine", 9, False), ("site", 12, True),
     ("node", 1, True), ("node", 2, False)],
)  # fmt: skip
def test_a_required_level_is_never_left(required: str, count: int, fits: bool) -> None:
    pool = pool_of(("a", "s1", 4), ("b", "s1", 4), ("c", "s2", 4))
    assert (place(pool, gang(count, required=required)) is not None) is fits


def test_free_eight_seven_seven_is_no_place_for_two_by_eight() -> None:
    """kueue#1476: the sum is enough, the pieces are not."""
    pool = pool_of(("a", "s1", 3))
    hold(pool, "a-n0", 1)
    hold(pool, "a-n1", 1)
    assert place(pool, gang(2)) is None
    assert place(pool, gang(1)) is not None


def test_one_per_node_spreads_tasks_that_would_fit_one_node() -> None:
    pool = pool_of(("a", "s1", 2), ("b", "s1", 2), accelerators=0)
    demand = Demand((TaskDemand("worker", 4, 1000, one_per_node=True),), 4)
    placement = must(place(pool, demand))
    assert len(set(placement.nodes.tolist())) == 4
    assert leaves(pool, placement) == ["a", "b"]


def test_an_elastic_gang_takes_the_largest_size_that_fits() -> None:
    pool = pool_of(("a", "s1", 5))
    assert len(must(place(pool, gang(8, least=2)))) == 5
    hold(pool, "a-n0", 8)
    assert len(must(place(pool, gang(8, least=2)))) == 4
    assert place(pool, gang(8, least=5)) is None


def test_models_are_not_mixed_where_one_is_enough() -> None:
    a100 = AcceleratorFacts(0, "nvidia", "A100", 40 << 30)
    nodes = [
        NodeFacts("n1", 64, 0, (replace(a100, index=0), replace(H100, index=1)), "a"),
        NodeFacts("n2", 64, 0, (replace(H100, index=0), replace(H100, index=1)), "a"),
    ]
    pool = Pool(nodes)
    pool.up[:] = True
    placement = must(place(pool, gang(3, accelerators=1)))
    names = {
        pool.facts[number].accelerators[int(bits).bit_length() - 1].model
        for number, bits in zip(placement.nodes, placement.bits, strict=True)
    }
    assert names == {"H100"}
    wanted = Demand((TaskDemand("worker", 1, 1000, 0, 1, "A100"),), 1)
    assert int(must(place(pool, wanted)).bits[0]) == 1
    assert place(pool, Demand((TaskDemand("worker", 1, 1000, 0, 1, "B200"),), 1)) is None


def test_unlike_groups_go_under_one_switch() -> None:
    pool = pool_of(("a", "s1", 2), ("b", "s1", 4))
    groups = (TaskDemand("router", 1, 8000), TaskDemand("worker", 3, 1000, 0, 8))
    placement = must(place(pool, Demand(groups, 4)))
    assert placement.groups.tolist() == [0, 1, 1, 1]
    assert leaves(pool, placement) == ["b"]


@pytest.mark.parametrize("mark", ["down", "cordoned", "spare"])
def test_nodes_that_may_not_be_used_are_not(mark: str) -> None:
    pool = pool_of(("a", "s1", 2))
    marks = {
        "down": lambda: pool.set_up("a-n0", value=False),
        "cordoned": lambda: pool.set_cordoned("a-n0", value=True),
        "spare": lambda: pool.set_spare("a-n0", value=True),
    }
    marks[mark]()
    assert place(pool, gang(2)) is None
    assert pool.facts[must(place(pool, gang(1))).nodes[0]].id == "a-n1"


def fewest_leaves(free: dict[tuple[str, str], int], count: int) -> tuple[int, int] | None:
    """By trying every set of leaves: the fewest that hold `count`, then the fewest spines."""
    for size in range(1, len(free) + 1):
        fitting = [
            len({spine for _, spine in chosen})
            for chosen in itertools.combinations(free, size)
            if sum(free[leaf] for leaf in chosen) >= count
        ]
        if fitting:
            return size, min(fitting)
    return None


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_against_every_set_of_leaves(shape: list[tuple[int, int]], count: int) -> None:
    rows = [(f"l{number}", f"s{spine}", size) for number, (spine, size) in enumerate(shape)]
    pool = pool_of(*rows)
    best = fewest_leaves({(leaf, spine): size for leaf, spine, size in rows}, count)
    placement = place(pool, gang(count))
    if best is None:
        assert placement is None
        return
    found = must(placement)
    assert len(found) == count
    used = set(pool.leaf[found.nodes].tolist())
    assert (len(used), len({int(pool.leaf_spine[leaf]) for leaf in used})) == best


demands = st.builds(
    lambda count, accelerators, cores, one: Demand(
        (TaskDemand("worker", count, cores * 1000, 0, accelerators, None, one),), count
    ),
    st.integers(1, 12),
    st.integers(0, 8),
    st.integers(0, 60),
    st.booleans(),
)


@given(st.lists(demands, max_size=12), st.randoms(use_true_random=False))
def test_books_equal_a_rebuild_and_nothing_is_held_twice(wanted: list[Demand], random: object) -> None:
    pool = pool_of(("a", "s1", 3), ("b", "s1", 2), ("c", "s2", 3))
    held: list[Placement] = []
    for demand in wanted:
        found = place(pool, demand)
        if found is not None:
            pool.take(found)
            held.append(found)
        if held and random.random() < 0.3:  # type: ignore[attr-defined]
            pool.give(held.pop(0))
        assert pool.same_books(pool.rebuilt(held))
        assert (pool.cpu_free >= 0).all()
    for placement in held:
        pool.give(placement)
    assert pool.same_books(Pool(pool.facts))


def test_an_accelerator_cannot_be_taken_twice() -> None:
    pool = pool_of(("a", "s1", 1))
    placement = must(place(pool, gang(1)))
    pool.take(placement)
    before = pool.free_bits.copy()
    with pytest.raises(ValueError, match="held already"):
        pool.take(placement)
    one = np.array([1, 1], dtype=np.int64)
    twice = Placement(np.array([0, 0]), np.array([1, 1], dtype=np.uint64), one * 0, one, one)
    pool.give(placement)
    with pytest.raises(ValueError, match="two ranks"):
        pool.take(twice)
    assert int(pool.free_bits[0]) == 0b11111111
    assert int(before[0]) == 0
    with pytest.raises(ValueError, match="not held"):
        pool.give(placement)


def test_a_placement_survives_words() -> None:
    pool = pool_of(("a", "s1", 2))
    placement = must(place(pool, gang(4, accelerators=4)))
    slots = pool.slots(placement, ["worker"])
    assert [slot.accelerators for slot in slots] == [(0, 1, 2, 3), (4, 5, 6, 7)] * 2
    again = pool.placement(slots, ["worker"])
    assert again.bits.tolist() == placement.bits.tolist()
    assert again.nodes.tolist() == placement.nodes.tolist()
