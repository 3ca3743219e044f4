"""Run folders: states that survive kill -9, and a step log that survives a torn line."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from l3_ylink._kit.problems import BadInput, Conflict, NotFound
from l3_ylink.trainkit import runs
from l3_ylink.trainkit.program import StepLog, StepReader, loss_curve, read_steps

INPUTS = {"plan": "sha256:1", "data": "sha256:2"}


def test_a_run_whose_supervisor_is_gone_is_interrupted_and_goes_on_as_the_next_attempt(
    tmp_path: Path,
) -> None:
    run = runs.open_run(tmp_path, "pretrain", INPUTS)
    assert (run.state, run.attempt) == ("running", 1)
    assert runs.read_run(tmp_path).seen().state == "running"
    replace(
        run, job="local-1", supervisor=f"{os.getpid()}:1"
    ).write()  # our number, but another process's start time
    assert runs.read_run(tmp_path).seen().state == "interrupted"
    again = runs.open_run(tmp_path, "pretrain", INPUTS)
    assert (again.id, again.attempt, again.state) == (run.id, 2, "running")


def test_two_runs_in_one_folder_are_a_conflict(tmp_path: Path) -> None:
    runs.open_run(tmp_path, "pretrain", INPUTS)
    with pytest.raises(Conflict, match="is running"):
        runs.open_run(tmp_path, "pretrain", INPUTS)


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        ("pretrain", {**INPUTS, "data": "sha256:3"}, "another data"),
        ("pretrain", {"plan": "sha256:9", "data": "sha256:9"}, "another data and plan"),
        ("sft", INPUTS, "another kind"),
    ],
)
def test_a_folder_with_another_run_is_a_conflict(
    tmp_path: Path, kind: str, inputs: dict[str, str], words: str
) -> None:
    runs.open_run(tmp_path, "pretrain", INPUTS).ended(runs.COMPLETED).write()
    with pytest.raises(Conflict, match=words):
        runs.open_run(tmp_path, kind, inputs)
    assert runs.read_run(tmp_path).state == "completed"


def test_the_end_of_a_run_is_kept_with_its_reason(tmp_path: Path) -> None:
    runs.open_run(tmp_path, "sft", INPUTS).ended(runs.FAILED, why="rank 1 fell").write()
    run = runs.read_run(tmp_path).seen()
    assert (run.state, run.why, run.supervisor) == ("failed", "rank 1 fell", "")
    assert run.ended_at is not None


def test_no_run_and_a_broken_file_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no run"):
        runs.read_run(tmp_path)
    (tmp_path / "run.json").write_text("{", "utf-8")
    with pytest.raises(BadInput, match="not a run's file"):
        runs.read_run(tmp_path)


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", "utf-8")
    with pytest.raises(BadInput, match="not a folder"):
        runs.open_run(tmp_path / "out", "sft", INPUTS)


class Heard:
    """A reporter that notes what it hears."""

    def __init__(self) -> None:
        self.words: list[tuple[object, ...]] = []

    def step(self, number: int, *, loss: float | None = None, samples: int | None = None) -> None:
        self.words.append(("step", number, loss, samples))

    def checkpoint(self, number: int) -> None:
        self.words.append(("checkpoint", number))

    def resumed(self, number: int) -> None:
        self.words.append(("resumed", number))


def test_the_step_log_goes_on_after_a_torn_line_and_the_last_attempt_counts(tmp_path: Path) -> None:
    heard = Heard()
    first = StepLog(tmp_path, 1, heard)
    first.step(1, loss=5.0, seconds=0.1, samples=8)
    first.step(2, loss=4.0, seconds=0.1, samples=8)
    first.stream.write('{"step": 3, "lo')  # killed in the middle of a line
    first.close()
    second = StepLog(tmp_path, 2, heard)
    second.resumed(1)
    second.step(2, loss=4.5, seconds=0.1, samples=8)
    second.checkpoint(2)
    second.close()
    assert loss_curve(tmp_path) == {1: 5.0, 2: 4.5}
    assert [row["attempt"] for row in read_steps(tmp_path)] == [1, 1, 2]
    assert heard.words[2:] == [("resumed", 1), ("step", 2, 4.5, 8), ("checkpoint", 2)]


def test_new_steps_are_read_once_even_past_a_torn_line(tmp_path: Path) -> None:
    assert list(read_steps(tmp_path)) == []
    log = StepLog(tmp_path, 1, None)
    log.step(1, loss=1.0, seconds=0.1, samples=1)
    all_steps, new_steps = StepReader(tmp_path), StepReader(tmp_path, only_new=True)
    log.stream.write('{"step": 2, "lo')
    log.close()
    again = StepLog(tmp_path, 2, None)
    again.step(2, loss=1.0, seconds=0.1, samples=1)
    assert [row["step"] for row in new_steps.rows()] == [2]
    assert list(new_steps.rows()) == []
    again.step(3, loss=1.0, seconds=0.1, samples=1)
    again.close()
    assert [row["step"] for row in new_steps.rows()] == [3]
    assert [row["step"] for row in all_steps.rows()] == [1, 2, 3]
    rows = (tmp_path / "steps.jsonl").read_text("utf-8").splitlines()
    assert set(json.loads(rows[0])) == {"step", "attempt", "at", "loss", "seconds"}


def test_an_interrupted_run_remembers_its_job_and_a_failed_one_does_not(tmp_path: Path) -> None:
    run = runs.open_run(tmp_path, "sft", INPUTS)
    replace(run, supervisor="1:1", job="job-7").write()
    again = runs.open_run(tmp_path, "sft", INPUTS)
    assert (again.job, again.attempt) == ("job-7", 2)
    replace(again, job="job-7").ended(runs.FAILED).write()
    third = runs.open_run(tmp_path, "sft", INPUTS)
    assert (third.job, third.attempt) == ("", 3)


def test_an_attempt_cut_off_before_its_job_was_noted_keeps_its_number(tmp_path: Path) -> None:
    """So that the same key is given to the platform, and a job it already has is not made twice."""
    replace(runs.open_run(tmp_path, "sft", INPUTS), supervisor="1:1").write()
    assert runs.open_run(tmp_path, "sft", INPUTS).attempt == 1
