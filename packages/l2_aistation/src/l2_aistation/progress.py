"""What a training program tells the platform, in three lines:

    from l2_aistation.api import progress
    for n in range(first, last):
        loss = train(n)
        progress.step(n, loss=loss)

Outside a job every call does nothing.  A call is one short write to a local file: it never raises,
never waits for the network and starts no thread.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time

_FILE = "OGAI_PROGRESS"
_open: tuple[str, int] | None = None


def step(number: int, *, loss: float | None = None, samples: int | None = None) -> None:
    """Step `number` is done; `loss` is its loss, `samples` how many samples it took."""
    _write("step", number, loss=loss, samples=samples)


def checkpoint(number: int) -> None:
    """The checkpoint of step `number` is durable."""
    _write("checkpoint", number)


def resumed(number: int) -> None:
    """The checkpoint of step `number` is loaded; training goes on after it."""
    _write("resumed", number)


def active() -> bool:
    """Whether this process runs inside a job."""
    return bool(os.environ.get(_FILE))


def _write(what: str, number: int, **values: float | None) -> None:
    path = os.environ.get(_FILE)
    if not path:
        return
    with contextlib.suppress(OSError, TypeError, ValueError):  # training matters more than its report
        line: dict[str, object] = {"what": what, "step": int(number), "at": time.time()}
        for name, value in values.items():
            if value is not None:
                line[name] = _plain(float(value))
        os.write(_descriptor(path), json.dumps(line).encode() + b"\n")


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)  # JSON has no word for nan


def _descriptor(path: str) -> int:
    global _open  # noqa: PLW0603 (one file per process, opened at the first call)
    if _open is None or _open[0] != path:
        _open = path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return _open[1]
