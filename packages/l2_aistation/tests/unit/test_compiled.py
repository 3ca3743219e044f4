"""Compiled loops and arrays give the same placements and scores, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.placement import DemandClass, Fragmentation, kernels, place
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Placement, Pool

pytest.importorskip("numba", reason="numba is not installed")

CARD = AcceleratorFacts(0, "nvidia", "H100", 80 << 30)


@pytest.fixture(autouse=True)
def _back_to_auto() -> Iterator[None]:
    yield
    kernels.use("auto")


def text(placement: Placement | None) -> object:
    if placement is None:
        return None
    names = ("nodes", "bits", "groups", "cpu_milli", "memory_bytes", "share_milli", "share_bytes")
    rows = [getattr(placement, name) for name in names]
    return [None if row is None else row.tolist() for row in rows]


def both(pool: Pool, demand: Demand, scores: dict[str, Fragmentation] | None = None) -> Placement | None:
    """The placement, after a look that both ways choose the same one."""
    found: list[Placement | None] = []
    for way in ("numpy", "numba"):
        kernels.use(way)
        found.append(place(pool, demand, score=scores[way] if scores else None))
    assert text(found[0]) == text(found[1])
    return found[0]


shapes = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.integers(1, 3), min_size=1, max_size=3)), min_size=1, max_size=8
)
gangs = st.builds(
    lambda count, cards, cores, one, required, least: Demand(
        (TaskDemand("worker", count, cores * 1000, 0, cards, None, one),),
        min(least, count),
        required=required,
    ),
    st.integers(1, 20),
    st.integers(0, 8),
    st.integers(0, 40),
    st.booleans(),
    st.sampled_from([None, "site", "spine", "leaf"]),
    st.integers(1, 20),
)


def cluster(shape: list[tuple[int, list[int]]]) -> Pool:
    cards = tuple(replace(CARD, index=number) for number in range(8))
    nodes = [
        NodeFacts(f"{leaf}-{rack}-{number}", 64, 0, cards, f"l{leaf}", f"s{spine}", f"r{rack}")
        for leaf, (spine, racks) in enumerate(shape)
        for rack, size in enumerate(racks)
        for number in range(size)
    ]
    pool = Pool(nodes)
    pool.up[:] = True
    return pool


@settings(deadline=None)
@given(shapes, st.lists(gangs, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_gangs(shape: list[tuple[int, list[int]]], wanted: list[Demand], random: object) -> None:
    pool = cluster(shape)
    held = []
    for demand in wanted:
        found = both(pool, demand)
        if found is not None:
            pool.take(found)
            held.append(found)
        if held and random.random() < 0.4:  # type: ignore[attr-defined]
            pool.give(held.pop(0))
        pool.up[random.randrange(len(pool))] ^= True  # type: ignore[attr-defined]


TYPICAL = (
    DemandClass(4000, 0, 1, 250, (), 30),
    DemandClass(8000, 0, 1, 500, ("A10",), 7),
    DemandClass(8000, 0, 1, 0, (), 25),
    DemandClass(16000, 0, 2, 0, ("H100",), 9),
    DemandClass(32000, 0, 4, 0, (), 5),
    DemandClass(2000, 0, 0, 0, (), 20),
)
tasks = st.builds(
    lambda cores, kind, models: Demand(
        (
            TaskDemand(
                "t",
                1,
                cores * 1000,
                0,
                kind[0],
                None,
                share_milli=kind[1],
                share_bytes=kind[2],
                models=models,
            ),
        ),
        1,
    ),
    st.integers(1, 16),
    st.sampled_from([(0, 0, 0), (1, 0, 0), (2, 0, 0), (4, 0, 0), (1, 250, 0), (1, 700, 0), (1, 0, 9 << 30)]),
    st.sampled_from([(), ("A10",), ("A10", "H100")]),
)


@settings(deadline=None)
@given(st.lists(tasks, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_scores(wanted: list[Demand], random: object) -> None:
    models = ["A10", "H100", "T4"]
    nodes = [
        NodeFacts(
            f"n{number}",
            32,
            0,
            tuple(
                replace(CARD, index=index, model=models[number % 3], memory_bytes=(8 << number % 4) << 30)
                for index in range(1 << number % 4)
            ),
        )
        for number in range(9)
    ]
    pool = Pool(nodes)
    pool.up[:] = True
    scores = {way: Fragmentation(pool, TYPICAL) for way in ("numpy", "numba")}
    held = []
    for demand in wanted:
        found = both(pool, demand, scores)
        if found is not None:
            pool.take(found)
            held.append(found)
        if held and random.random() < 0.3:  # type: ignore[attr-defined]
            pool.give(held.pop(0))
        totals = []
        for way, score in scores.items():
            kernels.use(way)  # type: ignore[arg-type]
            totals.append((score.total(), Fragmentation(pool, TYPICAL).total()))
        assert len({total for pair in totals for total in pair}) == 1  # incremental equals anew, both ways


def test_arrays_until_the_loops_are_warm_and_for_small_pools_always() -> None:
    kernels.use("auto")
    assert not kernels.compiled(8)
    assert kernels.warm()
    assert kernels.compiled(10_000)
    assert not kernels.compiled(8)
    kernels.use("numpy")
    assert not kernels.compiled(10_000)
