"""Usage is the same after kill -9 as before, and goes on over the time in which nobody was there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from l2_aistation._kit.tokens import OPERATOR, Principal
from l2_aistation.service.metering import Metering
from l2_aistation.settings import Settings
from l2_aistation.store import Store

SERVE = """
import sys, time
from pathlib import Path
from l2_aistation._kit.tokens import Principal
from l2_aistation.paper import PaperCluster, PaperEngine, spec_of
from l2_aistation.service import Service, submission
from l2_aistation.service.specs import check_spec
from l2_aistation.settings import Settings

cluster = PaperCluster(4)
service = Service(
    Settings.load(home=Path(sys.argv[1]), node_lost_s=20),
    make=PaperEngine.of(cluster).make, source=cluster,
)
service.start()
while not service.platform.world.pool.up.all():
    time.sleep(0.02)
if not service.platform.world.jobs:
    spec = check_spec(spec_of(8, "default", "train", 3600))
    for user in ("ann", "bob"):
        who = Principal("red", "user", user)
        service.call(lambda platform: submission.submit(platform, who, spec))
while sum(job.state == "running" for job in service.platform.world.jobs.values()) < 2:
    time.sleep(0.02)
time.sleep(0.3)
print("ready", flush=True)
time.sleep(600)
"""


class Life:
    """One life of the service, from ready to kill -9."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(home)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)


def report(home: Path, since: float, until: float) -> dict[str, Any]:
    """Usage by user as the store says it, with no service at all."""
    store = Store(Settings.load(home=home).database)
    try:
        platform = SimpleNamespace(clock=time.time)
        metering = Metering(store, cast("Any", platform))
        found = metering.report(Principal("system", OPERATOR, "admin"), "user", since, until)
        return found.as_json(lambda moment: None if moment is None else str(moment))
    finally:
        store.close()


@pytest.mark.parametrize("kills", [2])
def test_usage_over_kill_9(tmp_path: Path, kills: int) -> None:
    began = time.time() - 60
    life = Life(tmp_path)
    middle = time.time()
    before = report(tmp_path, began, middle)
    assert {row["user"]: row["jobs"] for row in before["rows"]} == {"ann": 1, "bob": 1}
    for _ in range(kills):
        life.kill()
        assert report(tmp_path, began, middle) == before
        time.sleep(0.5)
        life = Life(tmp_path)
    life.kill()
    assert report(tmp_path, began, middle) == before
    until = time.time()
    after = report(tmp_path, middle, until)
    for row in after["rows"]:  # eight accelerators each, all the time, alive or not
        assert row["held_hours"] == pytest.approx(8 * (until - middle) / 3600, abs=1e-5)
        assert row["idle_share"] == 0
    (pool,) = after["pool"]
    assert pool["capacity_hours"] == pytest.approx(32 * (until - middle) / 3600, abs=1e-5)
    assert pool["out_of_service_hours"] == 0
    assert pool["free_hours"] == pytest.approx(pool["capacity_hours"] / 2, abs=1e-5)
