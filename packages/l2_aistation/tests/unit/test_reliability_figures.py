"""A job's time taken apart: worked examples, and that the parts are always the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core.reliability import Life, figures_of


def test_a_job_with_one_fault_worked_out_by_hand() -> None:
    """Queued 100 s, starts in 20 s, 101 steps of 1 s, hangs 10 s, back 30 s later, 10 steps again, ends."""
    lives = [
        Life(100, 235, first_at=120, last_at=220, steps=101, fault_at=230, cause="hang"),
        Life(235, 360, first_at=250, last_at=350, steps=101, lost_steps=10),
    ]
    found = figures_of(0, lives, 360)
    assert found.phases == {
        "queued": 100,
        "starting": 20,
        "training": 100 + 100 - 10 + 10,
        "again": 10,
        "detection": 10,
        "recovery": 5 + 15,
    }
    assert found.wall == 360
    assert found.ettr == pytest.approx(200 / 360)
    assert found.goodput == pytest.approx(200 / 260)
    assert found.mttr == 30
    assert found.mtbf == 210
    assert found.causes == {"hang": (1, 30)}


def test_a_preempted_job_waits_in_the_queue_and_has_no_fault() -> None:
    lives = [Life(0, 50, first_at=10, last_at=50, steps=5), Life(80, 120, first_at=90, last_at=120, steps=4)]
    found = figures_of(0, lives, 120)
    assert found.faults == 0
    assert found.phases["queued"] == 30
    assert found.mttr is None
    assert found.mtbf is None


def test_a_job_that_never_started_has_only_waited() -> None:
    found = figures_of(10, [], 110)
    assert found.phases["queued"] == 100
    assert found.goodput is None
    assert found.ettr == 0


def test_two_faults_before_a_step_count_twice_and_end_together() -> None:
    lives = [
        Life(0, 12, first_at=1, last_at=10, steps=10, fault_at=11, cause="node_lost"),
        Life(12, 20, fault_at=18, cause="port_in_use"),
        Life(20, None, first_at=25, last_at=30, steps=6),
    ]
    found = figures_of(0, lives, 40)
    assert found.causes == {"node_lost": (1, 15), "port_in_use": (1, 7)}
    assert found.mttr == 11
    assert found.phases["recovery"] == 1 + 8 + 5


@st.composite
def histories(draw: st.DrawFn) -> tuple[float, list[Life], float]:
    at = draw(st.floats(0, 100))
    submitted, lives = at, []
    for _ in range(draw(st.integers(0, 5))):
        created = at + draw(st.floats(0, 50))
        first = created + draw(st.floats(0, 30))
        last = first + draw(st.floats(0, 300))
        fault = last + draw(st.floats(0, 30))
        at = fault + draw(st.floats(0, 30))
        stepped = draw(st.booleans())
        lives.append(
            Life(
                created,
                at,
                first if stepped else None,
                last if stepped else None,
                draw(st.integers(1, 100)) if stepped else 0,
                draw(st.integers(0, 20)),
                fault,
                draw(st.sampled_from([None, "hang", "node_lost"])),
            )
        )
    return submitted, lives, at + draw(st.floats(0, 20))


@given(histories())
def test_the_phases_are_all_of_the_time(history: tuple[float, list[Life], float]) -> None:
    submitted, lives, now = history
    found = figures_of(submitted, lives, now)
    assert found.wall == pytest.approx(now - submitted, abs=1e-6)
    assert all(seconds >= -1e-9 for seconds in found.phases.values())
    assert found.ettr is None or found.goodput is None or found.ettr <= found.goodput + 1e-9
    assert sum(count for count, _ in found.causes.values()) == found.faults
