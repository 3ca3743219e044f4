"""A run's log survives a kill at any byte; two applies never hold one cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from l1_podsys.api import Conflict, NotFound, PairState, Podsys
from l1_podsys.backends.folders import ClusterFolder

WRITER = """
import sys
from pathlib import Path
from l1_podsys.backends.folders import Run
run = Run(Path(sys.argv[1]))
number = 0
while True:
    run.append("note", detail=f"{number} " + "x" * 4000)
    number += 1
    print(number, flush=True)
"""


def test_a_log_cut_at_any_byte_is_read_and_goes_on(podsys: Podsys, fill: Callable[..., None]) -> None:
    fill("a", None)
    (run,) = podsys.runs()
    path = run.folder / "events.jsonl"
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        before = run.events()
        assert len(before) == whole[:cut].count(b"\n")
        fresh = podsys.state.cluster("a").run(run.id)
        fresh.append("note", detail="after")
        assert [event.detail for event in fresh.events()][-1] == "after"
        assert len(fresh.events()) == len(before) + 1


@pytest.mark.parametrize("attempt", range(3 if os.environ.get("OGAI_SOAK") != "1" else 50))
def test_what_was_written_before_a_kill_is_there(
    podsys: Podsys, fill: Callable[..., None], attempt: int
) -> None:
    fill("a", None)
    (run,) = podsys.runs()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(run.folder)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    for _ in range(2 + attempt):
        last = int(writer.stdout.readline())
    time.sleep(0.003 * attempt)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    notes = [event for event in run.events() if event.event == "note"]
    assert len(notes) >= last
    assert [event.sequence for event in run.events()] == list(range(1, len(run.events()) + 1))


def test_a_cluster_is_held_by_one_apply(podsys: Podsys) -> None:
    cluster = podsys.state.cluster("a")
    with cluster.alone(), pytest.raises(Conflict, match="another apply"), cluster.alone():
        pass
    with cluster.alone():
        pass


def test_a_run_tells_what_failed(podsys: Podsys, fill: Callable[..., None]) -> None:
    fill("a", None)
    (run,) = podsys.runs()
    assert run.states().states == {("n1", "os_settings"): PairState.FAILED}
    assert run.failures() == [{"host": "n1", "role": "os_settings", "why": "no space left on device"}]
    assert run.summary()["state"] == "failed"


@pytest.mark.parametrize("name", ["..", "a/../a", "", "a/runs", "A"])
def test_names_from_outside_never_leave_the_folder(
    podsys: Podsys, fill: Callable[..., None], name: str
) -> None:
    fill("a", None)
    with pytest.raises(NotFound):
        podsys.state.known(name, None)
    with pytest.raises(NotFound):
        podsys.state.cluster("a").run(name)


def test_the_digest_key_is_private_and_stays(tmp_path: Path) -> None:
    cluster = ClusterFolder(tmp_path / "c")
    key = cluster.key()
    assert len(key) == 32
    assert cluster.key() == key
    assert (tmp_path / "c" / "digest.key").stat().st_mode & 0o777 == 0o600


def test_a_plan_counts_as_applied_when_its_run_is_done(podsys: Podsys, fill: Callable[..., None]) -> None:
    fill("red", "red")
    cluster = podsys.state.cluster("red")
    assert (cluster.summary()["plan_changes"], cluster.summary()["plan_applied"]) == (1, False)
    plan = cluster.plan()
    assert plan is not None
    run = cluster.new_run(plan)
    run.append("begin")
    run.append("end", detail="done")
    assert cluster.summary()["plan_applied"] is True
    cluster.save_plan(plan.model_copy(update={"base": "/elsewhere"}))
    assert cluster.summary()["plan_applied"] is False
