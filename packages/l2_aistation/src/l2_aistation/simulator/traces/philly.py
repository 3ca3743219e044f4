"""Philly (Microsoft, 2017): `job_id, submit_s, duration_s, gpus, vc`.

The reduction of msr-fiddle/philly-traces (CC-BY-4.0) that Sia (SOSP 2023) simulates: no user, no
state.  A virtual cluster is a queue.
"""

from __future__ import annotations

from l2_aistation.simulator.jobs import TraceJob

from .rows import Row

NAME = "philly"
DELIMITER = ","
COLUMNS = ("job_id", "submit_s", "duration_s", "gpus", "vc")


def job(row: Row) -> TraceJob:
    """A row's job."""
    return TraceJob(
        row.text("job_id"),
        row.number("submit_s"),
        row.number("duration_s"),
        row.whole("gpus", least=1, most=1 << 20),
        queue=row.text("vc", "default"),
    )
