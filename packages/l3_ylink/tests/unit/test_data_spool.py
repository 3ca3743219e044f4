"""Rounds of tasks as files: whatever dies when, every task is answered, and at most one is done again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import Failed
from l3_ylink.datakit.engines import make_engine
from l3_ylink.datakit.engines.crash import MOST_CRASHES, after_crash
from l3_ylink.datakit.engines.spool import FOLDER, Spool, run_rounds


@dataclass
class Doomed:
    """A scheduler whose workers die: `deaths` says after how many tasks of each round, one a worker."""

    deaths: list[list[int]]
    done: Counter[int] = field(default_factory=Counter)
    rounds: int = 0
    cancelled: list[str] = field(default_factory=list)

    def submit(self, _plan: Any, spool: Spool, count: int) -> str:
        lives = self.deaths[self.rounds] if self.rounds < len(self.deaths) else []
        self.rounds += 1
        for number in range(count):
            spool.start(number)
            left = lives[number] if number < len(lives) else 10**6
            for task, value in list(enumerate(spool.tasks()))[number::count]:
                self.done[value["block"]] += 1  # begun
                if left == 0:
                    break
                left -= 1
                spool.answer(task, {"ok": {"block": value["block"]}})
        return f"job-{self.rounds}"

    def over(self, _job: str) -> bool:
        return True

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)


def plan_in(folder: Path) -> Any:
    return SimpleNamespace(folder=folder)


def run(batch: Any, folder: Path, blocks: Sequence[int], workers: int) -> list[int]:
    tasks = [{"task": "measure", "block": block} for block in blocks]
    return [reply["ok"]["block"] for reply in run_rounds(batch, plan_in(folder), tasks, workers)]


@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.lists(st.lists(st.integers(0, 3), max_size=5), max_size=4),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_task_is_answered_once_and_a_death_repeats_one(
    tmp_path: Path, tasks: int, workers: int, deaths: list[list[int]]
) -> None:
    batch = Doomed(deaths)
    assert sorted(run(batch, tmp_path, range(tasks), workers)) == list(range(tasks))
    died = sum(len(some[:workers]) for some in deaths[: batch.rounds])
    assert sum(batch.done.values()) <= tasks + died
    assert not (tmp_path / FOLDER).exists()


def test_workers_that_never_begin_are_an_error_with_their_words(tmp_path: Path) -> None:
    class Refusing(Doomed):
        def submit(self, _plan: Any, spool: Spool, count: int) -> str:
            (spool.folder / "0.log").write_text("no such interpreter\n")
            return "job-1"

    with pytest.raises(Failed, match="before any had begun") as error:
        run(Refusing([]), tmp_path, [0, 1], 2)
    assert error.value.why == "no such interpreter"
    assert not (tmp_path / FOLDER).exists()


def test_rounds_of_a_run_that_was_killed_are_ended_first(tmp_path: Path) -> None:
    left = Spool.make(tmp_path, [{"task": "measure", "block": 9}])
    (left.folder / "job").write_text("17")
    batch = Doomed([])
    assert run(batch, tmp_path, [1], 1) == [1]
    assert batch.cancelled == ["17"]
    assert not left.open


def test_a_file_that_kills_its_reader_twice_is_left_out_and_endless_deaths_end(tmp_path: Path) -> None:
    task = after_crash(tmp_path, {"task": "measure", "block": 3})
    assert (task["careful"], task.get("skip")) == (True, None)
    (tmp_path / ".reading-3").write_text("bomb.pdf", encoding="utf-8")
    task = after_crash(tmp_path, task)
    assert task["skip"] == ["bomb.pdf"]
    with pytest.raises(Failed, match=f"down {MOST_CRASHES} times"):
        after_crash(tmp_path, {**task, "crashes": MOST_CRASHES - 1})


@pytest.mark.parametrize(("name", "words"), [("spark", "local, slurm, ray, jobs"), ("jobs", "--runner")])
def test_an_engine_that_cannot_be_made_says_which_can(name: str, words: str) -> None:
    with pytest.raises(Exception, match="engine") as error:
        make_engine(name)
    assert words in str(getattr(error.value, "do", ""))
