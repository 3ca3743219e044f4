"""What is done with a held job, as tables; and who is lost."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core.diagnosis import LABELS
from l2_aistation.core.healing import Cause, PastAttempt, Place, Situation
from l2_aistation.core.recovery import BAD_NODE, GIVE_BACK, USERS, decide, silent_nodes, without_progress

PLACES = (
    Place("n1", "leaf1", "s1"),
    Place("n2", "leaf1", "s1"),
    Place("n3", "leaf2", "s1"),
    Place("n4", "leaf2", "s1"),
)
SPARE1 = Place("s-1", "leaf1", "s1", spare=True)
SPARE2 = Place("s-2", "leaf2", "s1", spare=True)
FREE2 = Place("f-2", "leaf2", "s1")
FAR = Place("far", "leaf9", "s9", spare=True)


def cause(label: str, node: str | None = "n2") -> Cause:
    return Cause(label, LABELS[label].category, LABELS[label].action, node, 1)


def past(number: int, label: str, last_step: int | None, node: str | None = "n2") -> PastAttempt:
    return PastAttempt(number, label, None if last_step is None else 1, last_step, node)


def situation(label: str, **changes: Any) -> Situation:
    base = Situation(
        cause=cause(label),
        places=PLACES,
        unusable=frozenset({"n2"}) if label == "node_lost" else frozenset(),
        candidates=(FAR, FREE2, SPARE2, SPARE1),
        history=(),
        max_attempts=5,
        on_user_error=False,
        now=100.0,
        held_since=99.0,
    )
    return dataclasses.replace(base, **changes)


@pytest.mark.parametrize("label", sorted(USERS))
def test_a_users_error_stops_at_once(label: str) -> None:
    decision = decide(situation(label))
    assert decision.what == "fail"
    assert "fix it" in decision.why


def test_unless_the_user_asked_for_retries() -> None:
    assert decide(situation("user_code_error", on_user_error=True)).what == "resume"


@pytest.mark.parametrize("label", sorted(BAD_NODE))
def test_a_bad_node_is_replaced_with_ranks_kept(label: str) -> None:
    decision = decide(situation(label))
    assert (decision.what, decision.replaced, decision.delay_s) == ("resume", {"n2": "s-1"}, 0.0)


@pytest.mark.parametrize(
    "label", ["process_killed", "hang", "peer_lost", "port_in_use", "unknown", "segfault"]
)
def test_a_process_fault_goes_on_in_place_at_once(label: str) -> None:
    decision = decide(situation(label))
    assert (decision.what, decision.replaced, decision.delay_s, decision.cordon) == ("resume", {}, 0.0, ())


@pytest.mark.parametrize("label", sorted(GIVE_BACK))
def test_what_the_scheduler_took_waits_in_the_queue(label: str) -> None:
    assert decide(situation(label)).what == "requeue"


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ((FAR, FREE2, SPARE2, SPARE1), "s-1"),
        ((FAR, FREE2, SPARE2), "s-2"),
        ((FAR, FREE2), "f-2"),
        ((FAR,), "far"),
        ((Place("f-1", "leaf1", "s1"), SPARE2), "f-1"),
    ],
)
def test_the_stand_in_is_as_near_as_can_be(candidates: tuple[Place, ...], chosen: str) -> None:
    assert decide(situation("node_lost", candidates=candidates)).replaced == {"n2": chosen}


def test_two_lost_nodes_get_two_stand_ins() -> None:
    decision = decide(situation("node_lost", unusable=frozenset({"n2", "n3"})))
    assert decision.replaced == {"n2": "s-1", "n3": "s-2"}


def test_without_a_stand_in_it_waits_and_then_queues() -> None:
    waiting = decide(situation("node_lost", candidates=()))
    assert (waiting.what, "n2" in waiting.why) == ("wait", True)
    assert decide(situation("node_lost", candidates=(), now=200.0)).what == "requeue"


def test_only_broken_hardware_is_cordoned() -> None:
    assert decide(situation("gpu_off_bus")).cordon == ("n2",)
    assert decide(situation("node_lost")).cordon == ()
    assert decide(situation("process_killed")).cordon == ()


def test_attempts_are_bounded() -> None:
    history = tuple(past(number, "node_lost", 10 * number) for number in range(1, 5))
    assert decide(situation("node_lost", history=history, max_attempts=5)).what == "fail"
    assert decide(situation("node_lost", history=history, max_attempts=6)).what == "resume"


def test_a_fault_without_progress_is_given_up_earlier() -> None:
    stuck = tuple(past(number, "process_killed", 40, None) for number in range(1, 5))
    moving = tuple(past(number, "process_killed", 40 * number, None) for number in range(1, 5))
    assert decide(situation("process_killed", history=stuck, max_attempts=50)).what == "fail"
    assert decide(situation("process_killed", history=moving, max_attempts=50)).what == "resume"


@pytest.mark.parametrize(
    ("steps", "idle"),
    [
        ([], 0),
        ([5], 0),
        ([5, 5], 1),
        ([5, 9], 0),
        ([5, 9, 9, 9], 2),
        ([None], 1),
        ([None, None], 2),
        ([9, None, 3], 2),
    ],
)
def test_progress_means_a_step_that_no_attempt_had(steps: list[int | None], idle: int) -> None:
    assert without_progress(tuple(past(n, "hang", step) for n, step in enumerate(steps, 1)), "hang") == idle


def test_attempts_that_never_step_are_spaced_out() -> None:
    history = (past(1, "rendezvous_timeout", None, None), past(2, "rendezvous_timeout", None, None))
    assert decide(situation("rendezvous_timeout", history=history, max_attempts=9)).delay_s == 4.0


def test_a_gpu_that_failed_before_is_not_the_users_memory() -> None:
    """ECC first, then the same node says out of memory."""
    history = (past(1, "gpu_ecc_uncorrectable", 40),)
    decision = decide(situation("cuda_oom", history=history))
    assert (decision.what, decision.replaced, decision.cordon) == ("resume", {"n2": "s-1"}, ("n2",))
    assert decide(situation("cuda_oom", history=(past(1, "gpu_ecc_uncorrectable", 40, "n3"),))).what == "fail"


def test_a_node_that_fails_again_and_again_is_left_whatever_it_says() -> None:
    history = (past(1, "process_killed", 40), past(2, "hang", 80))
    assert decide(situation("segfault", history=history)).replaced == {"n2": "s-1"}
    assert decide(situation("segfault", history=(history[0], past(2, "hang", 80, "n4")))).replaced == {}


@given(
    st.sampled_from(sorted(LABELS)),
    st.sets(st.sampled_from(["n1", "n2", "n3", "n4"])),
    st.lists(st.sampled_from([FAR, FREE2, SPARE1, SPARE2]), unique=True),
    st.lists(st.tuples(st.sampled_from(sorted(LABELS)), st.none() | st.integers(0, 99)), max_size=8),
    st.integers(1, 10),
    st.booleans(),
)
def test_every_decision_can_be_carried_out(
    label: str,
    unusable: set[str],
    candidates: list[Place],
    history: list[tuple[str, int | None]],
    most: int,
    on_user_error: bool,
) -> None:
    """No bad node keeps ranks, no stand-in is used twice, attempts never pass their bound."""
    asked = situation(
        label,
        unusable=frozenset(unusable),
        candidates=tuple(candidates),
        history=tuple(past(n, name, step) for n, (name, step) in enumerate(history, 1)),
        max_attempts=most,
        on_user_error=on_user_error,
    )
    decision = decide(asked)
    assert decision.what in ("resume", "wait", "requeue", "fail")
    assert decision.why
    if decision.what == "resume":
        assert len(history) + 2 <= most
        nodes = {decision.replaced.get(place.node, place.node) for place in PLACES}
        assert len(nodes) == len(PLACES)
        assert not nodes & unusable
        assert set(decision.replaced.values()) <= {place.node for place in candidates}
    else:
        assert decision.replaced == {}


NOW = 1000.0


@pytest.mark.parametrize(
    ("silent_s", "gap_s", "lost"),
    [
        ([0.2, 0.3, 3.0, 0.1], 0.1, ["b"]),
        ([0.2, 0.3, 2.0, 0.1], 0.1, []),
        ([3.0, 3.0, 3.0, 3.0], 0.1, []),  # nobody is heard: the broker or we are at fault
        ([9.0, 9.0, 9.0, 9.0], 0.1, []),
        ([0.2, 0.3, 3.0, 0.1], 2.0, []),  # we were late ourselves
        ([0.2, 3.0, 3.0, 3.0], 0.1, []),  # more than half: twice the patience
        ([0.2, 6.0, 6.0, 6.0], 0.1, ["a2", "b", "c"]),
        ([0.2, 3.0, 3.0, 0.2], 0.1, ["a2", "b"]),
        ([3.0], 0.1, []),
        ([8.0], 0.1, ["a"]),
        ([], 0.1, []),
    ],
)
def test_silence_is_judged_with_care(silent_s: list[float], gap_s: float, lost: list[str]) -> None:
    names = ["a", "a2", "b", "c"]
    seen = {name: NOW - silent for name, silent in zip(names, silent_s, strict=False)}
    assert silent_nodes(seen, NOW, 2.5, gap_s) == lost


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 100), min_size=1), st.floats(0.5, 10))
def test_nobody_who_was_just_heard_is_lost(silent: dict[str, float], limit: float) -> None:
    seen = {name: NOW - seconds for name, seconds in silent.items()}
    assert all(silent[name] > limit - 1e-6 for name in silent_nodes(seen, NOW, limit, 0.0))


@pytest.mark.parametrize(
    ("least", "unit", "size"),
    [(2, 1, 6), (2, 4, 4), (6, 1, 6), (7, 1, None), (8, 8, None), (None, 1, None)],
)
def test_an_elastic_gang_shrinks_in_whole_units_where_no_stand_in_is_left(
    least: int | None, unit: int, size: int | None
) -> None:
    """Four nodes of two ranks, one lost: six ranks are left."""
    decision = decide(situation("node_lost", candidates=(), tasks=(2, 2, 2, 2), least=least, unit=unit))
    assert decision.what == ("wait" if size is None else "shrink")
    assert decision.size == size
    assert decision.without == (() if size is None else ("n2",))


def test_a_stand_in_comes_before_a_smaller_gang() -> None:
    assert decide(situation("node_lost", tasks=(2, 2, 2, 2), least=2)).what == "resume"


def test_a_spoilt_loss_stops_unless_the_user_asked_to_go_back() -> None:
    assert decide(situation("loss_nan", last_step=40)).what == "fail"
    decision = decide(situation("loss_nan", last_step=40, rollback=True, every_steps=10))
    assert decision.what == "resume"
    assert decision.rollback == (37, 3)
    assert "back to step 37" in decision.why


def test_each_spoilt_loss_goes_one_checkpoint_further_back() -> None:
    past = tuple(PastAttempt(number, "loss_spike", 1, 40, None, 0.0, 1.0) for number in (1, 2))
    decision = decide(situation("loss_nan", last_step=40, rollback=True, every_steps=10, history=past))
    assert decision.rollback == (17, 23)
    early = decide(situation("loss_nan", last_step=4, rollback=True, every_steps=10, history=past))
    assert early.rollback == (0, 4)


def test_going_back_is_bounded_by_the_attempts() -> None:
    past = tuple(PastAttempt(number, "loss_nan", 1, 40, None, 0.0, 1.0) for number in range(1, 5))
    assert decide(situation("loss_nan", last_step=40, rollback=True, history=past)).what == "fail"
