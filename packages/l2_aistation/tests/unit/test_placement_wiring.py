"""What is wired how, and what is degraded: inside a node, between nodes, above a leaf."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.devices import Layout
from l2_aistation.core.placement import place, ring_bytes, ring_bytes_of
from l2_aistation.core.placement.inside import pick
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Placement, Pool

CARD = AcceleratorFacts(0, "nvidia", "H100", 80 << 30)
PAIRS = Layout((0b11, 0b1100, 0b110000, 0b11000000), (0b1111, 0b11110000))


def pool_of(leaves: int = 3, nodes: int = 4) -> Pool:
    cards = tuple(replace(CARD, index=number) for number in range(8))
    facts = [
        NodeFacts(f"n{leaf}-{node}", 64, 0, cards, f"l{leaf}")
        for leaf in range(leaves)
        for node in range(nodes)
    ]
    pool = Pool(facts)
    pool.up[:] = True
    return pool


def gang(count: int) -> Demand:
    return Demand((TaskDemand("worker", count, 1000, 0, 8),), count)


def must(placement: Placement | None) -> Placement:
    assert placement is not None
    return placement


def leaves(pool: Pool, placement: Placement) -> set[str]:
    return {pool.leaf_names[number] for number in pool.leaf[placement.nodes]}


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        (0b11111111, 2, 0b11),
        (0b11111101, 1, 0b1),  # the broken pair first
        (0b11110111, 2, 0b11),  # a whole pair in the fuller socket
        (0b01010111, 2, 0b11),
        (0b11110110, 4, 0b11110000),  # one socket rather than two
        (0b11111111, 3, 0b111),
        (0b01010101, 2, 0b101),  # no pair is left: at least one socket
    ],
)
def test_which_accelerators_of_a_node(free: int, count: int, expected: int) -> None:
    assert pick(free, count, PAIRS) == expected


@given(st.integers(0, 255), st.integers(1, 8), st.integers(0, 255))
def test_what_is_picked_is_free_and_as_many(free: int, count: int, weak: int) -> None:
    if free.bit_count() < count:
        return
    picked = pick(free, count, replace(PAIRS, weak=weak))
    assert picked & ~free == 0
    assert picked.bit_count() == count
    if (free & ~weak).bit_count() >= count:
        assert picked & weak == 0


def test_a_leaf_with_weak_links_is_for_gangs_that_stay_inside() -> None:
    pool = pool_of()
    pool.set_link("l0", ok=False)
    assert leaves(pool, must(place(pool, gang(8)))) == {"l1", "l2"}
    assert leaves(pool, must(place(pool, gang(12)))) == {"l0", "l1", "l2"}
    pool.take(must(place(pool, gang(8))))
    assert leaves(pool, must(place(pool, gang(4)))) == {"l0"}


def test_a_weak_rail_counts_where_a_gang_leaves_its_node() -> None:
    pool = pool_of(1)
    pool.set_health("n0-0", ok=True, weak_rails=2)
    assert 0 not in must(place(pool, gang(3))).nodes
    assert must(place(pool, gang(1))).nodes.tolist() == [0]
    assert len(must(place(pool, gang(4)))) == 4
    pool.set_health("n0-0", ok=True)
    assert pool.sound


def test_facts_bring_health() -> None:
    weak = replace(CARD, health="degraded")
    pool = Pool(
        [NodeFacts("n0", 64, 0, (weak, replace(CARD, index=1)), health="degraded"), NodeFacts("n1", 64)],
        weak_leaves=["leaf"],
    )
    assert pool.weak.tolist() == [True, False]
    assert pool.weak_leaf.tolist() == [True]
    pool.up[:] = True
    single = Demand((TaskDemand("worker", 1, 1000, 0, 1),), 1)
    assert must(place(pool, single)).bits.tolist() == [0b10]
    assert pool.rebuilt([]).sound is False
    assert pool.copy().weak.tolist() == [True, False]


def test_bytes_of_a_ring() -> None:
    """2 (n - 1) / n of the payload over each edge that crosses (Patarasuk and Yuan, 2009)."""
    assert ring_bytes_of(["a", "a", "b", "b"], 100) == 300
    assert ring_bytes_of(["a", "b", "a", "b"], 100) == 600
    assert ring_bytes_of(["a", "a"], 100) == 0
    assert ring_bytes_of(["a"], 100) == 0
    pool = pool_of()
    assert ring_bytes(pool, must(place(pool, gang(4))), 100) == 0
    assert ring_bytes(pool, must(place(pool, gang(8))), 800) == 2 * 2 * 7 * 100
