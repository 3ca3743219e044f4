"""The kernel's log: Xid, SXid, ECC, links, out of memory, disks, by the rules of the diagnosis.

A device that fell off the bus stays away until the next boot; a link that was down yesterday may be well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from l2_aistation.core.diagnosis import LABELS, Stream, diagnose_lines
from l2_aistation.core.recovery import HARDWARE

from .finding import ABSENT, BAD, OK, WARN, Finding

NAME = "kernel"
LASTING = frozenset({"gpu_off_bus", "gpu_row_remap_failure", "nvswitch_error", "gpu_gsp_timeout"})
"""What a boot or a repair ends, and nothing else."""

RECENT_S = 3600.0
_RECORD = 8192


def look() -> list[Finding]:
    """What the log says of this machine now."""
    try:
        lines = list(_records())
    except OSError as error:
        return [Finding(NAME, ABSENT, evidence=f"/dev/kmsg cannot be read: {error.strerror}")]
    with open("/proc/uptime", encoding="ascii") as stream:
        return judge(lines, float(stream.read().split()[0]))


def judge(lines: list[str], uptime_s: float = 0.0) -> list[Finding]:
    """Findings from lines as dmesg prints them, `uptime_s` after boot; noise is none."""
    recent = [line for line in lines if _seconds(line) >= uptime_s - RECENT_S]
    causes = {cause.label: cause for cause in diagnose_lines([Stream("dmesg", recent)]).causes}
    for cause in diagnose_lines([Stream("dmesg", lines)]).causes:
        if cause.label in LASTING:
            causes.setdefault(cause.label, cause)
    found = []
    for cause in causes.values():
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


def _seconds(line: str) -> float:
    """When a line was written, in seconds since boot."""
    try:
        return float(line[1 : line.index("]")])
    except ValueError:
        return 0.0
