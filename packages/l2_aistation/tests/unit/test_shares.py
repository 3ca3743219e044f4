"""Parts of accelerators: exact books, sums that never exceed a device, and where parts go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.demand import Demand, TaskDemand, demand_of
from l2_aistation.core.explain import impossible
from l2_aistation.core.placement import place
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Placement, Pool
from l2_aistation.core.world import World
from l2_aistation.documents import JobSpec

MIB = 1 << 20
L40S = AcceleratorFacts(0, "nvidia", "L40S", 46_068 * MIB)


def pool_of(nodes: int, accelerators: int, reserve: int = 0, pairs: bool = False) -> Pool:
    cards = tuple(
        replace(L40S, index=number, nvlink=number // 2 if pairs else None) for number in range(accelerators)
    )
    facts = [NodeFacts(f"n{number}", 64, 0, cards, f"leaf{number // 2}") for number in range(nodes)]
    pool = Pool(facts, {"L40S": reserve})
    pool.up[:] = True
    return pool


def part(count: int = 1, milli: int = 0, size: int = 0) -> Demand:
    group = TaskDemand("worker", count, 1, 0, 1, share_milli=milli, share_bytes=size)
    return Demand((group,), count)


def must(placement: Placement | None) -> Placement:
    assert placement is not None
    return placement


def fits(pool: Pool, demand: Demand) -> int:
    """How many jobs of one kind a pool takes one after the other."""
    count = 0
    while (found := place(pool, demand)) is not None:
        pool.take(found)
        count += 1
    return count


@pytest.mark.parametrize(
    ("size_mib", "reserve_mib", "expected"), [(2000, 0, 23), (2000, 1000, 22), (46_068, 0, 1), (46_069, 0, 0)]
)
def test_as_many_parts_as_memory_divides_into(size_mib: int, reserve_mib: int, expected: int) -> None:
    """KAI#416: 24 parts of 2,000 MiB were accepted on a card of 46,068 MiB; right is 23."""
    pool = pool_of(1, 1, reserve_mib * MIB)
    assert fits(pool, part(size=size_mib * MIB)) == expected
    together = pool_of(1, 1, reserve_mib * MIB)
    assert place(together, part(expected + 1, size=size_mib * MIB)) is None
    if expected:
        together.take(must(place(together, part(expected, size=size_mib * MIB))))


@pytest.mark.parametrize(("milli", "expected"), [(500, 2), (333, 3), (334, 2), (1, 1000), (1000, 1)])
def test_as_many_parts_as_shares_divide_into(milli: int, expected: int) -> None:
    assert fits(pool_of(1, 1), part(milli=milli)) == expected


def test_parts_fill_one_accelerator_before_they_break_another() -> None:
    pool = pool_of(2, 4)
    for _ in range(4):
        pool.take(must(place(pool, part(milli=250))))
    assert pool.free_bits.tolist() == [0b1110, 0b1111]
    pool.take(must(place(pool, part(milli=600))))
    pool.take(must(place(pool, part(milli=300))))
    assert np.bitwise_count(pool.free_bits).sum() == 6  # 0.3 sits beside 0.6


def test_a_part_breaks_a_broken_pair_first() -> None:
    pool = pool_of(1, 4, pairs=True)
    pool.take(must(place(pool, Demand((TaskDemand("worker", 1, 100, 0, 1),), 1))))
    pool.take(must(place(pool, part(milli=500))))
    assert int(pool.free_bits[0]) == 0b1100


def test_who_asks_by_memory_and_who_asks_by_share_fit_together_exactly() -> None:
    pool = pool_of(1, 1)
    pool.take(must(place(pool, part(milli=500))))
    assert fits(pool, part(size=2000 * MIB)) == 11  # 23,034 MiB are left
    assert place(pool, part(milli=100)) is None


def test_whole_accelerators_and_parts_never_meet() -> None:
    pool = pool_of(1, 2)
    shared = must(place(pool, part(milli=10)))
    pool.take(shared)
    whole = Demand((TaskDemand("worker", 1, 100, 0, 2),), 1)
    assert place(pool, whole) is None
    with pytest.raises(ValueError, match="held already"):
        pool.take(replace(shared, share_milli=None, share_bytes=None))
    pool.give(shared)
    taken = must(place(pool, whole))
    pool.take(taken)
    with pytest.raises(ValueError, match="held already"):
        pool.take(shared)
    with pytest.raises(ValueError, match="not held"):
        pool.give(shared)
    assert place(pool, part(milli=10)) is None


def test_more_than_is_left_is_refused_and_changes_nothing() -> None:
    pool = pool_of(1, 1)
    most = must(place(pool, part(milli=700)))
    pool.take(most)
    before = pool.copy()
    with pytest.raises(ValueError, match="more than what is left"):
        pool.take(most)
    assert pool.same_books(before)
    pool.give(most)
    with pytest.raises(ValueError, match="not held"):
        pool.give(most)
    assert pool.same_books(Pool(pool.facts))


def test_parts_survive_words() -> None:
    pool = pool_of(1, 2)
    placement = must(place(pool, part(3, size=20_000 * MIB)))
    slots = pool.slots(placement, ["worker"])
    assert [slot.accelerators for slot in slots] == [(0,), (0,), (1,)]
    assert {slot.accelerator_bytes for slot in slots} == {20_000 * MIB}
    assert {slot.share for slot in slots} == {0.434}  # whole thousandths of 20,000 / 46,068
    again = pool.placement(slots, ["worker"])
    pool.take(placement)
    pool.give(again)
    assert pool.same_books(Pool(pool.facts))


kinds = st.one_of(
    st.builds(lambda count, milli: part(count, milli=milli), st.integers(1, 5), st.integers(1, 1000)),
    st.builds(lambda count, size: part(count, size=size), st.integers(1, 5), st.integers(1, 46_068 * MIB)),
    st.builds(
        lambda count, cards: Demand((TaskDemand("worker", count, 100, 0, cards),), count),
        st.integers(1, 3),
        st.integers(0, 4),
    ),
    st.builds(
        lambda milli: Demand(
            (TaskDemand("a", 2, 100, 0, 1, share_milli=milli), TaskDemand("b", 1, 100, 0, 2)), 3
        ),
        st.integers(1, 1000),
    ),
)


@given(st.lists(kinds, max_size=16), st.randoms(use_true_random=False), st.integers(0, 2000))
def test_books_are_exact_whatever_comes_and_goes(wanted: list[Demand], random: object, reserve: int) -> None:
    pool = pool_of(3, 4, reserve * MIB, pairs=True)
    fresh = pool.copy()
    held: list[Placement] = []
    for demand in wanted:
        found = place(pool, demand)
        if found is not None:
            assert len(found) == demand.count
            pool.take(found)
            held.append(found)
        if held and random.random() < 0.4:  # type: ignore[attr-defined]
            pool.give(held.pop(random.randrange(len(held))))  # type: ignore[attr-defined]
        assert pool.same_books(pool.rebuilt(held))
        check_sums(pool, held)
    for placement in held:
        pool.give(placement)
    assert pool.same_books(fresh)


def check_sums(pool: Pool, held: list[Placement]) -> None:
    """Counted from what is held: no device is held whole twice, or by parts beyond what it has."""
    whole: dict[tuple[int, int], int] = {}
    milli: dict[tuple[int, int], int] = {}
    size: dict[tuple[int, int], int] = {}
    for placement in held:
        for slot in pool.slots(placement, ["a", "b"]):
            for place_ in slot.accelerators:
                key = pool.index[slot.node], place_
                if slot.accelerator_milli or slot.accelerator_bytes:
                    milli[key] = milli.get(key, 0) + slot.accelerator_milli
                    size[key] = size.get(key, 0) + slot.accelerator_bytes
                else:
                    whole[key] = whole.get(key, 0) + 1
    assert all(count == 1 for count in whole.values())
    assert not whole.keys() & milli.keys()
    assert all(amount <= 1000 for amount in milli.values())
    assert all(amount <= pool.devices.memory[key] for key, amount in size.items())


@given(st.lists(kinds, max_size=8), st.lists(kinds, max_size=8))
def test_what_both_pools_have_free_fits_both(first: list[Demand], second: list[Demand]) -> None:
    pools = [pool_of(2, 4), pool_of(2, 4)]
    for pool, demands in zip(pools, (first, second), strict=True):
        for demand in demands:
            found = place(pool, demand)
            if found is not None:
                pool.take(found)
    both = pools[0].copy()
    both.meet(pools[1])
    for demand in (part(milli=300), part(size=9000 * MIB), Demand((TaskDemand("w", 1, 100, 0, 1),), 1)):
        found = place(both, demand)
        if found is not None:
            for pool in pools:
                pool.copy().take(found)


def spec(**resources: object) -> JobSpec:
    task = {"command": ["true"], "resources": {"accelerators": 1, **resources}}
    producer = {"name": "tests", "version": "1"}
    return JobSpec.model_validate(
        {"schema": "ogai.job-spec/v1", "producer": producer, "name": "x", "tasks": [task]}
    )


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        ({"accelerator_share": 0.5, "accelerator_memory_bytes": 1}, "tasks.0.resources.accelerator_share"),
        ({"accelerator_share": 0.5, "accelerators": 2}, "tasks.0.resources.accelerators"),
        ({"accelerator_share": 0.0001}, "tasks.0.resources.accelerator_share"),
        (
            {"accelerator_model": "A", "accelerator_models": ["B"]},
            "tasks.0.resources.accelerator_models",
        ),
    ],
)
def test_contradictions_are_named(resources: dict[str, object], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        demand_of(spec(**resources))
    assert caught.value.field == field


def test_equal_specs_are_one_demand() -> None:
    first, second = demand_of(spec(accelerator_share=0.25)), demand_of(spec(accelerator_share=0.25))
    assert first is second
    assert first.groups[0].share_milli == 250
    assert demand_of(spec(accelerator_share=1)).groups[0].part is False


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            part(size=50_000 * MIB),
            "a task needs 52428800000 bytes of accelerator memory, the largest accelerator has 48305799168",
        ),
        (part(3, milli=700), "needs 2.1 accelerators, the pool has 2"),
        (part(4, milli=400), None),
        (part(5, milli=400), "in one piece there is room for 4 of 5 tasks"),
    ],
)
def test_why_a_part_has_no_place(wanted: Demand, words: str | None) -> None:
    refusal = impossible(World(pool_of(1, 2)), wanted)
    assert (None if refusal is None else refusal.words()) == words
