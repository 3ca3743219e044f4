"""The table of deployment states: no dead ends, and after a crash everything can go on."""

from __future__ import annotations

from l4_mmodel.serving.deployments import RUNNING, STATES, TRANSITIONS


def test_from_every_state_a_deployment_can_be_served_again() -> None:
    for state in STATES:
        reached, before = {state}, set[str]()
        while reached != before:
            before = set(reached)
            reached |= {after for (at, _), after in TRANSITIONS.items() if at in before}
        assert "ready" in reached, state


def test_a_gateway_can_take_over_every_running_state() -> None:
    assert all(TRANSITIONS[state, "start"] == "starting" for state in RUNNING)


def test_every_state_that_uses_a_runtime_can_be_stopped() -> None:
    assert {state for state in STATES if (state, "stop") in TRANSITIONS} == {*RUNNING, "failed"}
