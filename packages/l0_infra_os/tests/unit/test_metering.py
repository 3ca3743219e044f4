"""Node-seconds add up: each node is in one state at a time, whoever looks at whatever window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from l0_infra_os.core.lifecycle import HELD, NodeState
from l0_infra_os.core.metering import Interval, usage


def life(node: str, cuts: list[float], states: list[NodeState]) -> list[Interval]:
    """One node's intervals, each ending where the next begins, the last one open."""
    rows = []
    for index, (start, state) in enumerate(zip(cuts, states, strict=False)):
        end = cuts[index + 1] if index + 1 < min(len(cuts), len(states)) else None
        rows.append(Interval(node, state, "t", start, end))
    return rows


def test_a_day_by_hand() -> None:
    rows = [
        Interval("n", NodeState.AVAILABLE, None, 0, 3600),
        Interval("n", NodeState.LEASED, "t", 3600, 3660),
        Interval("n", NodeState.ACTIVE, "t", 3660, 10860),
        Interval("n", NodeState.ERASING, "t", 10860, None),
    ]
    found = {(row.tenant, row.state.value): (row.node_seconds, row.charged) for row in usage(rows, 0, 11000)}
    assert found == {
        (None, "available"): (3600, False),
        ("t", "leased"): (60, True),
        ("t", "active"): (7200, True),
        (None, "erasing"): (140, False),  # the tenant does not pay for its own erasure
    }


@given(
    st.lists(st.floats(0, 1000), min_size=1, max_size=8, unique=True),
    st.lists(st.sampled_from(list(NodeState)), min_size=8, max_size=8),
    st.floats(0, 1000),
    st.floats(0, 1000),
)
def test_the_sum_is_the_time_that_the_node_was_known(
    cuts: list[float], states: list[NodeState], one: float, other: float
) -> None:
    since, until = sorted((one, other))
    rows = life("n", sorted(cuts), states)
    total = sum(row.node_seconds for row in usage(rows, since, until))
    assert abs(total - max(0.0, until - max(since, min(cuts)))) < 1e-6
    middle = (since + until) / 2
    halves = [*usage(rows, since, middle), *usage(rows, middle, until)]
    assert abs(sum(row.node_seconds for row in halves) - total) < 1e-6
    assert all(row.charged == (row.state in HELD) for row in usage(rows, since, until))
