"""Allocation: all or none, under as few leaves as can be; quota."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l0_infra_os._kit.problems import BadInput, Conflict
from l0_infra_os.core.tenancy import Candidate, allocate, check_flavor, check_quota, check_request


def fleet(**leaves: int) -> list[Candidate]:
    return [
        Candidate(f"{leaf}-{index}", leaf, leaf, "2c-4g")
        for leaf, count in leaves.items()
        for index in range(count)
    ]


def leaves_of(ids: tuple[str, ...]) -> list[str]:
    return sorted({node_id.split("-")[0] for node_id in ids})


@pytest.mark.parametrize(
    ("free", "nodes", "spares", "members_on", "spares_on"),
    [
        ({"a": 4, "b": 2}, 2, 0, ["b"], []),  # best fit: the large leaf stays whole
        ({"a": 4, "b": 2}, 4, 0, ["a"], []),
        ({"a": 3, "b": 3}, 4, 0, ["a", "b"], []),
        ({"a": 4, "b": 4, "c": 1}, 5, 0, ["a", "c"], []),  # the rest goes where it fits best
        ({"a": 3, "b": 2}, 2, 1, ["b"], ["a"]),
        ({"a": 4, "b": 2}, 3, 1, ["a"], ["a"]),  # a spare beside the members
    ],
)
def test_nodes_sit_together(
    free: dict[str, int], nodes: int, spares: int, members_on: list[str], spares_on: list[str]
) -> None:
    choice = allocate(fleet(**free), nodes=nodes, spares=spares)
    assert (len(choice.members), len(choice.spares)) == (nodes, spares)
    assert leaves_of(choice.members) == members_on
    assert leaves_of(choice.spares) == spares_on


def test_a_growing_lease_stays_near_its_leaves() -> None:
    assert leaves_of(allocate(fleet(a=2, b=3), nodes=1, near=["b"]).members) == ["b"]


def test_too_few_is_a_conflict_with_both_counts() -> None:
    with pytest.raises(Conflict, match=r"4 nodes are asked for, 3 are available"):
        allocate(fleet(a=2, b=1), nodes=3, spares=1)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.integers(1, 12), st.integers(0, 3))
def test_it_is_all_or_none_and_never_a_node_twice(counts: list[int], nodes: int, spares: int) -> None:
    free = fleet(**{f"l{number}": count for number, count in enumerate(counts)})
    if nodes + spares > len(free):
        with pytest.raises(Conflict):
            allocate(free, nodes=nodes, spares=spares)
        return
    choice = allocate(free, nodes=nodes, spares=spares)
    assert len(choice.members) == nodes
    assert len(choice.spares) == spares
    assert len(set(choice.all)) == nodes + spares
    assert set(choice.all) <= {node.id for node in free}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(1, 10))
def test_no_smaller_set_of_leaves_would_do(counts: list[int], nodes: int) -> None:
    """Against brute force over all sets of leaves."""
    if sum(counts) < nodes:
        return
    free = fleet(**{f"l{number}": count for number, count in enumerate(counts)})
    used = len(leaves_of(allocate(free, nodes=nodes).members))
    for size in range(1, used):
        assert all(sum(some) < nodes for some in itertools.combinations(counts, size))


def test_quota_says_how_many_are_left() -> None:
    check_quota(tenant="t", quota=None, held=10**6, asked=10**6)
    check_quota(tenant="t", quota=4, held=2, asked=2)
    with pytest.raises(Conflict) as caught:
        check_quota(tenant="t", quota=4, held=3, asked=2)
    assert "at most 1" in caught.value.do


@pytest.mark.parametrize(("nodes", "spares", "field"), [(0, 0, "nodes"), (-1, 0, "nodes"), (1, -1, "spares")])
def test_counts_that_make_no_sense(nodes: int, spares: int, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_request(nodes, spares)
    assert caught.value.field == field


def test_a_flavor_that_no_node_has_is_not_a_full_pool() -> None:
    check_flavor(None, [])
    check_flavor("8g", ["8g", "2c"])
    with pytest.raises(BadInput, match="no node has the flavor '9g'") as caught:
        check_flavor("9g", ["8g", "2c", "2c", ""])
    assert (caught.value.field, caught.value.do) == ("flavor", "use one of: 2c, 8g")
