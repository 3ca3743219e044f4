"""What a service knows after a restart, and that a fault in a policy does not stop it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l2_aistation._kit.tokens import Principal
from l2_aistation.adapters.this_machine import ThisMachine
from l2_aistation.core.job import Job
from l2_aistation.core.policy import Rule, default_policies
from l2_aistation.core.world import World
from l2_aistation.service import Service, jobs, views
from l2_aistation.settings import Settings

Make = Callable[..., dict[str, Any]]
WHO = Principal("red", "user", "ann")


class Broken(Rule):
    """A policy of a third party with a fault in it."""

    name = "broken"

    def rank(self, world: World, job: Job, now: float) -> float:
        """Fails."""
        raise ZeroDivisionError


def start(home: Path, **options: Any) -> Service:
    settings = Settings.load(home=home, heartbeat_s=0.2, grace_s=0.5)
    service = Service(settings, source=ThisMachine(), **options)
    service.start()
    return service


def until(service: Service, job: str, *states: str) -> str:
    end = time.monotonic() + 60
    while True:
        row = service.store.job(job, None)
        assert row is not None
        if row["state"] in states:
            return str(row["state"])
        assert time.monotonic() < end, row["state"]
        time.sleep(0.05)


def test_run_times_are_learned_again_from_the_jobs_that_ended(tmp_path: Path, make_spec: Make) -> None:
    checked = jobs.check_spec(make_spec("import time; time.sleep(1.2)", name="train"))
    service = start(tmp_path)
    try:
        names = [service.call(lambda platform: jobs.submit(platform, WHO, checked)) for _ in range(12)]
        assert {until(service, name, "completed", "failed") for name in names} == {"completed"}
        learned = service.platform.world.run_times.as_record()
    finally:
        service.stop()
    again = start(tmp_path)
    try:
        times = again.platform.world.run_times
        assert times.as_record() == learned
        like = Job("x", "red", "default", 0, 0.0, checked.demand, name="train", owner="ann")
        assert 1.2 <= (times.quantile(like, 0.5) or 0) < 20
    finally:
        again.stop()


def test_a_fault_in_a_policy_stops_decisions_and_not_the_answers(tmp_path: Path, make_spec: Make) -> None:
    checked = jobs.check_spec(make_spec())
    service = start(tmp_path, policies=(*default_policies(), Broken()))
    try:
        first, second = (service.call(lambda platform: jobs.submit(platform, WHO, checked)) for _ in range(2))
        end = time.monotonic() + 30
        while not service.cycles.failures and time.monotonic() < end:
            time.sleep(0.05)
        assert service.cycles.failures
        why = service.call(lambda platform: views.explain_job(platform, WHO, first))
        assert why["state"] == "queued"
        assert service.call(lambda platform: jobs.cancel(platform, WHO, second)) == "cancelled"
    finally:
        service.stop()
    repaired = start(tmp_path)
    try:
        assert until(repaired, first, "completed", "failed") == "completed"
        assert until(repaired, second, "cancelled") == "cancelled"
    finally:
        repaired.stop()
