"""What the ranks wrote, read from the shared folder."""

from __future__ import annotations

import os
from pathlib import Path

from l2_aistation._kit.problems import NotFound
from l2_aistation._kit.tokens import Principal

from .loop import Service
from .views import job_row

MOST_BYTES = 8_000_000


def tail(service: Service, who: Principal, job: str, *, rank: int, attempt: int | None, lines: int) -> str:
    """The last lines of a rank's log, of the newest attempt by default."""
    row = job_row(service, who, job)
    number = attempt if attempt is not None else row["attempt"]
    path = service.settings.shared / ".aistation" / row["id"] / str(number) / f"rank-{rank}.log"
    try:
        return _last_lines(path, lines)
    except OSError as error:
        raise NotFound(
            f"no log of rank {rank} in attempt {number} of {job}",
            why="it has not started, or the shared folder is elsewhere",
            do="look at `aistation job`, or set OGAI_L2_SHARED_DIR",
        ) from error


def _last_lines(path: Path, lines: int) -> str:
    """Reads at most `MOST_BYTES` from the end."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - MOST_BYTES, 0))
        text = stream.read().decode("utf-8", errors="replace")
    return "".join(text.splitlines(keepends=True)[-lines:])
