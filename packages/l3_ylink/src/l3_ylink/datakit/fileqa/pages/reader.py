"""Asks a reading process for page after page, and starts another one when it is gone."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from l3_ylink.datakit.fileqa.limits import Limits

OCR_FACTOR = 10
"""Text recognition may take so many times the CPU time of a page."""

WALL = 15
"""Wall time may be so many times the CPU time, for machines that others use too."""

_free: dict[Limits, Reader] = {}
_foreign: list[Reader] = []
"""Readers of the process that this one was forked from: left alone."""


class Gone(Exception):  # noqa: N818
    """The reading process ended in the middle of a request; the message is the reason."""


class Reader:
    """A reading process."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-P",  # nothing from the folder that the command runs in
                "-m",
                "l3_ylink.datakit.fileqa.pages.worker",
                str(limits.page_seconds),
                str(limits.page_memory),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def ask(self, *request: Any) -> Any:
        """The answer to a request; raises `Gone` with `time`, `memory` or `broken`."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise Gone("broken")
        try:
            pickle.dump(request, stdin, protocol=5)
            stdin.flush()
            wall = self.limits.page_seconds * WALL * (OCR_FACTOR if request[0] == "ocr" else 1)
            if not select.select([stdout], [], [], wall)[0]:
                self.close()
                raise Gone("time")
            return pickle.load(stdout)  # noqa: S301 (from the process that we started)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            code = self.process.wait()
            self.close()
            late = code == -signal.SIGPROF
            raise Gone("time" if late else "broken") from error

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.wait()


def _take(limits: Limits) -> Reader:
    reader = _free.pop(limits, None)
    if reader is not None and reader.owner != os.getpid():
        _foreign.append(reader)
    elif reader is not None and reader.process.poll() is None:
        return reader
    return Reader(limits)


def _give(reader: Reader) -> None:
    if reader.process.poll() is None and reader.limits not in _free:
        _free[reader.limits] = reader
    else:
        reader.close()


@atexit.register
def close_readers() -> None:
    """Ends the reading processes that wait for more work."""
    while _free:
        reader = _free.popitem()[1]
        if reader.owner == os.getpid():  # else a copy in a forked process
            reader.close()
        else:
            _foreign.append(reader)


class Session:
    """One open document; survives the end of its reading process."""

    def __init__(self, source: bytes | Path, limits: Limits) -> None:
        self.source, self.limits = source, limits
        self.reader = _take(limits)
        self.opened: Any = self._ask("open", source)

    def _ask(self, *request: Any) -> Any:
        try:
            return self.reader.ask(*request)
        except Gone as gone:
            self.reader = Reader(self.limits)
            return str(gone)

    def page(self, number: int, kind: str = "page") -> Any:
        """A page as `worker.Read`, or the reason why it could not be read."""
        for _ in range(2):
            before = self.reader
            answer = self._ask(kind, number)
            if self.reader is before:
                break
            self._ask("open", self.source)
            if answer == "time":
                break  # else something else may have ended the process: once more
        return answer

    def close(self) -> None:
        """Gives the reading process back."""
        _give(self.reader)


@contextlib.contextmanager
def session(source: bytes | Path, limits: Limits) -> Iterator[Session]:
    """An open document for the time of a `with`."""
    opened = Session(source, limits)
    try:
        yield opened
    finally:
        opened.close()
