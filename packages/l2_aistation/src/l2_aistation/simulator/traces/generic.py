"""Any trace as CSV.  Columns that must be there: `id, submit_s, duration_s, accelerators`.

Columns that may be there: `tasks` (equal tasks that share the accelerators; by default as few as the
nodes allow), `queue`, `user`, `name`, `priority`, and for each task `cpu_cores`, `memory_bytes`,
`model`, and `limit_s` (the time limit that the user gave).
"""

from __future__ import annotations

from l2_aistation.simulator.jobs import TraceJob

from .rows import Row

NAME = "generic"
DELIMITER = ","
COLUMNS = ("id", "submit_s", "duration_s", "accelerators")


def job(row: Row) -> TraceJob:
    """A row's job."""
    accelerators = row.whole("accelerators", most=1 << 20)
    tasks = row.whole("tasks", 0, most=1 << 20)
    if tasks and accelerators % tasks:
        raise row.wrong("tasks", f"{tasks} do not share {accelerators} accelerators evenly")
    limit = row.number("limit_s", 0.0)
    return TraceJob(
        row.text("id"),
        row.number("submit_s"),
        row.number("duration_s"),
        accelerators,
        tasks=tasks or (0 if accelerators else 1),
        queue=row.text("queue", "default"),
        user=row.text("user", ""),
        name=row.text("name", ""),
        priority=int(row.number("priority", 0, least=-1_000_000)),
        cpu_milli=round(row.number("cpu_cores", 0.0) * 1000),
        memory_bytes=row.whole("memory_bytes", 0),
        model=row.cells.get("model") or None,
        limit_s=limit or None,
    )
