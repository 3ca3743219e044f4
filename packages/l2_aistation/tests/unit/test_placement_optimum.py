"""Placements of unlike groups against the optimum that CP-SAT proves, on small pools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.placement import place
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool

cp_model: Any = pytest.importorskip("ortools.sat.python.cp_model", reason="ortools is not installed")

CARD = AcceleratorFacts(0, "nvidia", "H100", 80 << 30)


def optimum(pool: Pool, demand: Demand) -> tuple[int, int] | None:
    """The fewest leaves, and for those the fewest spines; None where the gang does not fit."""
    model = cp_model.CpModel()
    free = [int(word).bit_count() for word in pool.free_bits]
    cells = range(len(pool))
    takes = {
        (group, node): model.NewIntVar(0, demand.groups[group].count, "")
        for group in range(len(demand.groups))
        for node in cells
    }
    for number, group in enumerate(demand.groups):
        model.Add(sum(takes[number, node] for node in cells) == group.count)
    for node in cells:
        for amount, most in (("accelerators", free[node]), ("cpu_milli", int(pool.cpu_free[node]))):
            used = [
                getattr(group, amount) * takes[number, node] for number, group in enumerate(demand.groups)
            ]
            model.Add(sum(used) <= most)
    leaf = [model.NewBoolVar("") for _ in pool.leaf_names]
    spine = [model.NewBoolVar("") for _ in pool.spine_names]
    for (at, node), count in takes.items():
        model.Add(count <= demand.groups[at].count * leaf[pool.leaf[node]])
    for number, under in enumerate(pool.leaf_spine.tolist()):
        model.AddImplication(leaf[number], spine[under])
    model.Minimize(1000 * sum(leaf) + sum(spine))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.Solve(model) == cp_model.INFEASIBLE:
        return None
    leaves, spines = divmod(round(solver.ObjectiveValue()), 1000)
    return leaves, spines


def switches(pool: Pool, demand: Demand) -> tuple[int, int] | None:
    found = place(pool, demand)
    if found is None:
        return None
    pool.copy().take(found)  # it can be booked
    leaves = set(pool.leaf[found.nodes].tolist())
    return len(leaves), len({int(pool.leaf_spine[leaf]) for leaf in leaves})


def cluster(shape: list[tuple[int, list[int]]]) -> Pool:
    """Leaves under spines; each number is a node with so many free accelerators, and 8 cores."""
    nodes = [
        NodeFacts(
            f"{leaf}-{number}",
            8,
            0,
            tuple(replace(CARD, index=index) for index in range(size)),
            f"l{leaf}",
            f"s{spine}",
        )
        for leaf, (spine, sizes) in enumerate(shape)
        for number, size in enumerate(sizes)
    ]
    pool = Pool(nodes)
    pool.up[:] = True
    return pool


pools = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 4), min_size=1, max_size=3)), min_size=1, max_size=5
).map(cluster)
groups = st.builds(
    lambda name, count, cards, cores: TaskDemand(name, count, cores * 1000, 0, cards),
    st.just("x"),
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(1, 5),
)


@settings(deadline=None, max_examples=60)
@given(pools, st.lists(groups, min_size=1, max_size=3))
def test_leaves_and_spines_against_the_optimum(pool: Pool, members: list[TaskDemand]) -> None:
    named: tuple[TaskDemand, ...] = tuple(
        replace(group, task=f"g{number}") for number, group in enumerate(members)
    )
    demand = Demand(named, sum(group.count for group in named))
    best, ours = optimum(pool, demand), switches(pool, demand)
    if best is None:
        assert ours is None
    else:
        assert ours == best


COUNTED = [
    ([(0, [4, 4]), (0, [4]), (1, [4, 4])], [(2, 3, 1), (2, 1, 1)]),
    ([(0, [4, 2]), (1, [4, 2]), (1, [2])], [(2, 2, 3), (3, 1, 2)]),
    ([(0, [2]), (0, [2]), (1, [2]), (1, [2, 2])], [(2, 2, 1), (1, 2, 4)]),
    ([(0, [4]), (1, [3, 3]), (1, [4, 1])], [(1, 4, 1), (2, 3, 2), (4, 0, 1)]),
    ([(0, [4, 4, 4]), (1, [4, 4, 4])], [(3, 2, 4), (3, 2, 3)]),
]


@pytest.mark.parametrize(("shape", "members"), COUNTED)
def test_known_cases_reach_the_optimum(
    shape: list[tuple[int, list[int]]], members: list[tuple[int, int, int]]
) -> None:
    pool = cluster(shape)
    named = tuple(
        TaskDemand(f"g{number}", count, cores * 1000, 0, cards)
        for number, (count, cards, cores) in enumerate(members)
    )
    demand = Demand(named, sum(group.count for group in named))
    assert switches(pool, demand) == optimum(pool, demand)
