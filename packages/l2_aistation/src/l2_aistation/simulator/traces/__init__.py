"""Readers of traces, told apart by their header row; one file for each format.

A format is a module with `NAME`, `COLUMNS` (its header must hold all of them), `DELIMITER` and
`job(row) -> TraceJob | None` (None leaves a row out).
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from l2_aistation._kit.problems import BadInput
from l2_aistation.simulator.jobs import QuotaChange, Trace

from . import alibaba, generic, helios, philly, sacct
from .rows import header_of, rows_of

FORMATS: tuple[ModuleType, ...] = (alibaba, philly, sacct, generic)

__all__ = ["FORMATS", "read_quotas", "read_trace"]


def read_trace(path: Path, *, variant: str | None = None) -> Trace:
    """The jobs of a trace file, by submission; the clock starts at the first one.

    `variant` picks one of the re-samplings that a file of the Alibaba format holds.
    """
    form = _format(path)
    rows = rows_of(path, form.DELIMITER)
    if form is alibaba:
        wanted = variant or alibaba.DEFAULT
        rows = (row for row in rows if row.cells.get("variant", wanted) == wanted)
    elif variant is not None:
        raise BadInput(f"a {form.NAME} trace has no variants", field="variant", do="leave it out")
    jobs = [job for row in rows if (job := form.job(row)) is not None]
    if not jobs:
        of = f" of variant {variant!r}" if variant else ""
        raise BadInput(f"has no job{of}", field=str(path))
    jobs.sort(key=lambda job: job.submit_s)
    if len({job.id for job in jobs}) != len(jobs):
        raise BadInput("two jobs have one id", field=str(path))
    return Trace(path.name.split(".")[0], jobs)


def read_quotas(path: Path, start_s: float = 0.0) -> list[QuotaChange]:
    """Quota changes from a file with `date, vc, gpus`: the first date is `start_s` of the trace."""
    if not set(helios.COLUMNS) <= set(header_of(path)):
        raise BadInput(f"has no columns {', '.join(helios.COLUMNS)}", field=str(path))
    return helios.changes(rows_of(path), start_s)


def _format(path: Path) -> ModuleType:
    for form in FORMATS:
        header = header_of(path, form.DELIMITER)
        if set(form.COLUMNS) <= set(header):
            return form
    raise BadInput(
        "is no trace that is known here",
        field=str(path),
        why=f"its header is {', '.join(header)[:200] or 'empty'}",
        do="give it the columns " + ", ".join(generic.COLUMNS),
    )
