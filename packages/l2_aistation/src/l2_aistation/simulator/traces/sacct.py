"""Slurm's own records: `sacct --allusers --parsable2 --format=JobID,JobName,User,Partition,Submit,Start,End,ElapsedRaw,TimelimitRaw,AllocTRES,NNodes,State`.

Steps (`12.batch`) and jobs that never started are left out.  Accelerators are `gres/gpu` of
`AllocTRES`; times are local times without a zone, as sacct prints them.
"""  # noqa: E501 (the command is one line)

from __future__ import annotations

import re
from datetime import UTC, datetime

from l2_aistation.simulator.jobs import TraceJob

from .rows import Row

NAME = "sacct"
DELIMITER = "|"
COLUMNS = ("JobID", "Submit", "AllocTRES")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "": 1 << 20}
ELAPSED = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)")


def job(row: Row) -> TraceJob | None:
    """A row's job; None for a step and for a job that never started."""
    name = row.text("JobID")
    duration = elapsed(row)
    if "." in name or not duration:
        return None
    held = _tres(row)
    nodes = max(row.whole("NNodes", 1, most=1 << 20), 1)
    typed = sum(amount for name, amount in held.items() if name.startswith("gres/gpu:"))
    accelerators = int(held.get("gres/gpu", typed))
    tasks = nodes if accelerators % nodes == 0 else 1
    limit = row.cells.get("TimelimitRaw", "")
    return TraceJob(
        name,
        _time(row, "Submit"),
        duration,
        accelerators,
        tasks=tasks,
        queue=row.text("Partition", "default"),
        user=row.text("User", ""),
        name=row.text("JobName", ""),
        cpu_milli=round(held.get("cpu", 0.0) * 1000 / tasks),
        memory_bytes=int(held.get("mem", 0.0) / tasks),
        limit_s=60.0 * int(limit) if limit.isdecimal() else None,
    )


def elapsed(row: Row) -> float:
    """How long a job ran, from `ElapsedRaw` (seconds) or `Elapsed` ([D-]HH:MM:SS)."""
    if row.cells.get("ElapsedRaw"):
        return row.number("ElapsedRaw")
    found = ELAPSED.fullmatch(row.text("Elapsed"))
    if found is None:
        raise row.wrong("Elapsed", f"is no time like 1-02:03:04: {row.cells['Elapsed']!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _time(row: Row, name: str) -> float:
    text = row.text(name)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise row.wrong(name, f"is no time like 2026-01-31T12:00:00: {text!r}") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _tres(row: Row) -> dict[str, float]:
    """`cpu=8,mem=64G,node=1,gres/gpu=8` as numbers, memory in bytes."""
    held: dict[str, float] = {}
    for part in filter(None, row.cells["AllocTRES"].split(",")):
        name, _, amount = part.partition("=")
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", amount)
        if found is None:
            continue
        value = float(found[1])
        held[name] = value * UNITS[found[2]] if name == "mem" else value
    return held
