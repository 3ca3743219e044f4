"""The SDK in a program, and what is learned from the steps."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation import progress
from l2_aistation.core.stepwatch import StepWatch


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_outside_a_job_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OGAI_PROGRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    progress.step(1, loss=2.0)
    progress.checkpoint(1)
    progress.resumed(1)
    assert not progress.active()
    assert list(tmp_path.iterdir()) == []


def test_inside_a_job_each_call_is_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "steps"
    monkeypatch.setenv("OGAI_PROGRESS", str(path))
    begun = time.time()
    progress.step(7, loss=2.5, samples=32)
    progress.step(8, loss=math.nan)
    progress.checkpoint(8)
    progress.resumed(8)
    found = lines(path)
    assert progress.active()
    assert [(line["what"], line["step"]) for line in found] == [
        ("step", 7),
        ("step", 8),
        ("checkpoint", 8),
        ("resumed", 8),
    ]
    assert (found[0]["loss"], found[0]["samples"], found[1]["loss"]) == (2.5, 32, "nan")
    assert all(begun - 1 <= float(str(line["at"])) <= time.time() + 1 for line in found)


def test_training_goes_on_whatever_happens_to_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for path in ("/no/such/folder/steps", str(tmp_path), "/dev/full"):
        monkeypatch.setenv("OGAI_PROGRESS", path)
        progress.step(1, loss=1.0)
    monkeypatch.setenv("OGAI_PROGRESS", str(tmp_path / "steps"))
    progress.step("three", loss="low")  # type: ignore[arg-type]
    progress.step(3, loss=0.5)
    assert [line["step"] for line in lines(tmp_path / "steps")] == [3]


def test_a_step_costs_next_to_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OGAI_PROGRESS", str(tmp_path / "steps"))
    begun = time.process_time()
    for number in range(2000):
        progress.step(number, loss=1.0)
    assert (time.process_time() - begun) / 2000 < 1e-3


def test_three_lines_import_nothing_heavy() -> None:
    code = (
        "import sys; from l2_aistation.api import progress; progress.step(1, loss=2.0); "
        "print([n for n in ('torch', 'celery', 'redis', 'sqlalchemy', 'numpy') if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_hang_is_learned_from_the_jobs_own_steps() -> None:
    """Ten times the longest step, at least 30 s; nothing before five intervals."""
    watch = StepWatch()
    for number in range(5):
        watch.step(0, number, 5.0 * number)
    assert watch.limit_s(0) is None
    watch.step(0, 5, 25.0)
    assert watch.limit_s(0) == 50.0
    assert watch.findings(74.0) == []
    found = watch.findings(76.0)
    assert [(item.rank, item.kind) for item in found] == [(0, "hang")]
    assert "after step 5" in found[0].evidence
    assert watch.findings(77.0) == []


def test_fast_steps_are_not_called_a_hang_at_once() -> None:
    watch = StepWatch()
    for number in range(10):
        watch.step(0, number, 0.01 * number)
    assert watch.findings(20.0) == []
    assert len(watch.findings(31.0)) == 1


def test_the_rank_that_is_furthest_behind_is_named_first() -> None:
    watch = StepWatch(hang_s=1.0)
    for rank, step in ((0, 9), (1, 8), (2, 9)):
        watch.step(rank, step, 10.0)
    assert [item.rank for item in watch.findings(12.0)] == [1, 0, 2]


def test_three_losses_that_are_no_number_are_a_fault_and_fewer_are_not() -> None:
    watch = StepWatch()
    for number, loss in enumerate([1.0, math.nan, math.inf, 1.0, math.nan, math.nan]):
        watch.step(0, number, float(number), loss)
    assert watch.findings(6.0) == []
    watch.step(0, 6, 6.0, -math.inf)
    assert [item.kind for item in watch.findings(6.0)] == ["nan"]


@given(st.lists(st.floats(0.001, 5), min_size=6, max_size=200))
def test_a_steady_job_is_never_called_hung(intervals: list[float]) -> None:
    watch = StepWatch()
    now = 0.0
    for number, interval in enumerate(intervals):
        assert [item for item in watch.findings(now + interval) if item.kind == "hang"] == []
        now += interval
        watch.step(0, number, now, 1.0)


def test_a_loss_that_jumps_and_stays_is_told_once() -> None:
    """A tenth of noise is none; the first steps of a training, that fall steeply, are none."""
    watch = StepWatch()
    falling = [11.0, 9.0, 8.0, 7.2, 6.8, 6.5, 6.3]
    noisy = [6.2 + 0.3 * math.sin(number) for number in range(40)]
    for number, loss in enumerate([*falling, *noisy, 9.4]):
        watch.step(0, number, float(number), loss)
        assert watch.findings(number + 0.5) == []
    watch.step(0, 48, 48.0, 9.9)
    assert [item.kind for item in watch.findings(48.5)] == ["spike"]
    watch.step(0, 49, 49.0, 10.2)
    assert watch.findings(49.5) == []


def test_steps_that_become_slower_and_stay_so_are_told() -> None:
    watch = StepWatch()
    now = 0.0
    for number in range(48):
        now += 4.0 if number == 20 else 1.0  # one slow step, as a checkpoint makes it, is none
        watch.step(0, number, now)
        assert watch.findings(now) == []
    for number in range(48, 70):
        now += 1.8
        watch.step(0, number, now)
    found = watch.findings(now)
    assert [item.kind for item in found] == ["slow"]
    assert "1.8 times" in found[0].evidence
