"""Error counters of InfiniBand and RoCE ports, by their rate since the last look.

Thresholds: a link that was down since the last look is worth a look at once; symbol errors up to 120 an hour
are within the bit error rate that the InfiniBand specification allows (10^-12 at 4x EDR and slower).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from l2_aistation._kit.files import atomic_write

from .finding import ABSENT, BAD, OK, WARN, Finding

NAME = "fabric"
SYS = Path("/sys/class/infiniband")
COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "local_link_integrity_errors",
)
SYMBOLS_AN_HOUR = 120.0
FLAPS_AN_HOUR = 3.0

Counts = Mapping[str, Mapping[str, int]]
"""Port -> counter -> value."""


def look() -> list[Finding]:
    """Ports of this machine against the last look, which is kept beside other temporary files."""
    now, counts = time.time(), read(SYS)
    if not counts:
        return [Finding(NAME, ABSENT, evidence="no InfiniBand or RoCE port")]
    kept = Path(tempfile.gettempdir()) / "aistation-fabric.json"
    try:
        before = json.loads(kept.read_bytes())
        seconds, last = now - float(before["at"]), before["counts"]
    except (OSError, ValueError, KeyError, TypeError):
        seconds, last = 0.0, {}
    atomic_write(kept, json.dumps({"at": now, "counts": counts}), mode=0o600)
    return judge(last, counts, seconds)


def read(folder: Path) -> dict[str, dict[str, int]]:
    """The counters of all ports below /sys/class/infiniband."""
    ports: dict[str, dict[str, int]] = {}
    for port in sorted(folder.glob("*/ports/*")):
        values = {}
        for name in COUNTERS:
            try:
                values[name] = int((port / "counters" / name).read_text())
            except (OSError, ValueError):
                continue
        ports[f"{port.parent.parent.name}/{port.name}"] = values
    return ports


def judge(before: Counts, now: Counts, seconds: float) -> list[Finding]:
    """Findings from two looks; the first look alone says nothing."""
    found = []
    for port, values in now.items():
        if port not in before or seconds <= 0:
            continue
        risen = {name: values[name] - before[port].get(name, values[name]) for name in values}
        hourly = {name: 3600 * count / seconds for name, count in risen.items()}
        flaps = risen.get("link_downed", 0)
        if flaps > 0:
            state = BAD if hourly["link_downed"] > FLAPS_AN_HOUR and flaps > 1 else WARN
            found.append(
                Finding(NAME, state, "nic_link_flap", port, f"went down {flaps} times in {seconds:.0f} s")
            )
        elif hourly.get("symbol_error", 0.0) > SYMBOLS_AN_HOUR:
            rate = hourly["symbol_error"]
            found.append(Finding(NAME, WARN, "nic_hw_fault", port, f"{rate:.0f} symbol errors an hour"))
        elif risen.get("link_error_recovery", 0) > 0:
            found.append(Finding(NAME, WARN, "nic_link_flap", port, "the link was trained again"))
    return found or [Finding(NAME, OK, evidence=f"{len(now)} ports")]
