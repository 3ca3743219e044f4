"""The kernel's log since boot: Xid, SXid, ECC, links, out of memory, disks, by the rules of the diagnosis."""

from __future__ import annotations

import os
from collections.abc import Iterator

from l2_aistation.core.diagnosis import LABELS, Stream, diagnose_lines
from l2_aistation.core.recovery import HARDWARE

from .finding import ABSENT, BAD, OK, WARN, Finding

NAME = "kernel"
_RECORD = 8192


def look() -> list[Finding]:
    """What the log says of this machine now."""
    try:
        lines = list(_records())
    except OSError as error:
        return [Finding(NAME, ABSENT, evidence=f"/dev/kmsg cannot be read: {error.strerror}")]
    return judge(lines)


def judge(lines: list[str]) -> list[Finding]:
    """Findings from lines as dmesg prints them; noise is none."""
    found = []
    for cause in diagnose_lines([Stream("dmesg", lines)]).causes:
        if cause.label in ("unknown", "benign") or LABELS[cause.label].category not in (
            "gpu",
            "network",
            "storage",
            "host",
        ):
            continue
        state = BAD if cause.label in HARDWARE and cause.action in ("replace", "reset") else WARN
        found.append(Finding(NAME, state, cause.label, evidence=cause.evidence[0]))
    return found or [Finding(NAME, OK)]


def _records() -> Iterator[str]:
    """`/dev/kmsg` record by record (Documentation/ABI/testing/dev-kmsg), without waiting for more."""
    descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                raw = os.read(descriptor, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # a record was overwritten while we read
            head, _, text = raw.decode("utf-8", "replace").partition(";")
            micros = head.split(",")[2] if head.count(",") >= 2 else "0"
            yield f"[{int(micros) / 1e6:12.6f}] {text.splitlines()[0] if text else ''}"
    finally:
        os.close(descriptor)
