"""The tables answer what a crash means: every in-flight state is carried on and can be left."""

from __future__ import annotations

import pytest
from l0_infra_os._kit.problems import Conflict
from l0_infra_os.core import lifecycle
from l0_infra_os.core.lifecycle import (
    CONNECTED,
    DELETABLE,
    HELD,
    IN_FLIGHT,
    ISOLATING,
    LEASE_TRANSITIONS,
    STABLE,
    TRANSITIONS,
    LeaseState,
    NodeState,
    after,
    lease_after,
    lease_event,
)

S, L = NodeState, LeaseState


def reachable(start: str, table: dict[tuple[NodeState, str], NodeState]) -> set[str]:
    seen, todo = {start}, [start]
    while todo:
        state = todo.pop()
        for (source, _event), target in table.items():
            if source == state and target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def test_every_state_is_reached_from_enrolment_and_leads_back_to_available() -> None:
    assert reachable(S.ENROLLED, TRANSITIONS) == set(S)
    for state in set(S):
        assert S.AVAILABLE in reachable(state, TRANSITIONS)


def test_the_reconciler_has_a_handler_for_exactly_the_states_in_flight() -> None:
    from l0_infra_os.service.steps import HANDLERS

    assert set(HANDLERS) == IN_FLIGHT
    assert set(S) == STABLE | IN_FLIGHT
    assert not STABLE & IN_FLIGHT


def test_a_tenants_port_is_on_its_segment_only_where_the_node_is_held() -> None:
    assert CONNECTED <= HELD
    assert not DELETABLE & (HELD | IN_FLIGHT)


def test_from_a_connected_state_only_an_isolating_state_leads_away() -> None:
    for (source, event), target in TRANSITIONS.items():
        if source in CONNECTED and target not in CONNECTED:
            assert target in ISOLATING, f"{source} --{event}--> {target} would skip isolation"


def test_a_nodes_data_is_erased_before_it_is_available_again() -> None:
    into_available = {source for (source, _), target in TRANSITIONS.items() if target is S.AVAILABLE}
    assert into_available == {S.INSPECTING, S.ERASING}
    into_inspecting = {source for (source, _), target in TRANSITIONS.items() if target is S.INSPECTING}
    assert not into_inspecting & (HELD | ISOLATING | {S.ERASING})


def test_what_a_state_does_not_allow_is_a_conflict_that_names_what_it_does() -> None:
    with pytest.raises(Conflict) as caught:
        after(S.AVAILABLE, "release")
    assert "inspect" in caught.value.why
    with pytest.raises(Conflict):
        lease_after(L.ENDED, "provision")


@pytest.mark.parametrize(
    ("state", "wanted", "nodes", "event"),
    [
        (L.PROVISIONING, 2, [S.ACTIVE, S.DEPLOYING], None),
        (L.PROVISIONING, 2, [S.ACTIVE, S.ACTIVE], "ready"),
        (L.PROVISIONING, 2, [S.ACTIVE], "short"),
        (L.PROVISIONING, 2, [S.ACTIVE, S.LEASED], "reject"),
        (L.PROVISIONING, 1, [S.ACTIVE, S.DETACHING], "ready"),
        (L.RESERVED, 2, [S.LEASED, S.LEASED], None),
        (L.RELEASING, 2, [S.ERASING], None),
        (L.RELEASING, 2, [], "end"),
        (L.ACTIVE, 2, [S.ACTIVE, S.DETACHING], None),
    ],
)
def test_what_the_nodes_states_mean_for_their_lease(
    state: LeaseState, wanted: int, nodes: list[NodeState], event: str | None
) -> None:
    assert lease_event(state, wanted, nodes) == event


def test_every_lease_can_be_released_and_ends() -> None:
    for state in lifecycle.LEASE_OPEN:
        assert LEASE_TRANSITIONS[state, "release"] is L.RELEASING
    assert LEASE_TRANSITIONS[L.RELEASING, "end"] is L.ENDED
