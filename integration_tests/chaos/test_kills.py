"""kill -9 of any kind of process while the demo runs: it goes on or says why not, and nothing is left."""

from __future__ import annotations

import pytest

from integration_tests.chaos.kills import KilledRun
from integration_tests.conftest import FinishedDemo

pytestmark = pytest.mark.real


def test_one_process_of_each_kind_was_killed(killed_runs: list[KilledRun]) -> None:
    assert [run.kind.name for run in killed_runs if not run.victim] == []


def test_a_demo_goes_on_or_stops_with_one_clear_error(killed_runs: list[KilledRun]) -> None:
    for run in killed_runs:
        told = f"{run.kind.name}, {run.victim}: {run.output[-4000:]}"
        assert "Traceback" not in run.output, told
        if run.code == 0:
            assert "everything is stopped" in run.output, told
        elif "integration_tests.demo" in run.victim:  # nobody is left to say anything
            assert run.code == -9
        else:
            assert run.output.count("stopped: ") == 1, told


def test_a_kill_leaves_nothing(killed_runs: list[KilledRun]) -> None:
    assert {run.kind.name: run.left for run in killed_runs if run.left} == {}


def test_the_same_command_again_runs_to_its_end(finished_demo: FinishedDemo) -> None:
    assert finished_demo.output.splitlines()[-1] == str(finished_demo.report)
