"""What a node can say of its own condition, read from /sys and from its folder of data sets.

A link counts as weak when it carries less than it has carried since the machine was started: a port
that never was up is no fault.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

from l2_aistation._kit.files import atomic_write
from l2_aistation.core.events import Condition

EVERY_S = 5.0
MOST_DATA = 1000
_DATA = re.compile(r"^sha256-([0-9a-f]{64})$")
_UP, _ACTIVE = "up", "4:"  # Documentation/ABI: sysfs-class-net operstate, sysfs-class-infiniband state


class ConditionWatch:
    """Looks at most every few seconds.  The best rate of each link lasts in `folder` over restarts."""

    def __init__(self, folder: Path, cache: Path | None, boot_id: str, sys: Path = Path("/sys")) -> None:
        self._file = folder / "links.json"
        self._cache, self._boot_id, self._sys = cache, boot_id, sys
        self._best = self._load()
        self._looked = -EVERY_S
        self._last = Condition()

    def look(self, now: float | None = None) -> Condition:
        """The condition, not older than a few seconds."""
        now = time.monotonic() if now is None else now
        if now - self._looked >= EVERY_S:
            self._looked = now
            self._last = Condition(tuple(self._data()), tuple(self._weak()), tuple(self._faults()))
        return self._last

    def _load(self) -> dict[str, float]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            known = json.loads(self._file.read_text(encoding="utf-8"))
            if known["boot_id"] == self._boot_id:
                return {str(name): float(rate) for name, rate in known["best"].items()}
        return {}

    def _weak(self) -> list[str]:
        rates = dict([*self._ethernet(), *self._infiniband()])
        best = {name: max(rates.get(name, 0.0), self._best.get(name, 0.0)) for name in {*rates, *self._best}}
        if best != self._best:
            self._best = best
            with contextlib.suppress(OSError):
                atomic_write(self._file, json.dumps({"boot_id": self._boot_id, "best": best}))
        return sorted(name for name, rate in best.items() if rates.get(name, 0.0) < rate)

    def _ethernet(self) -> Iterator[tuple[str, float]]:
        """Rates in Mbit/s of interfaces that are hardware; 1 where an interface that is up does not tell."""
        for path in sorted(self._sys.glob("class/net/*/device")):
            link = path.parent
            rate = 0.0
            if _read(link / "operstate") == _UP:
                rate = max(_number(_read(link / "speed")), 1.0)
            yield link.name, rate

    def _infiniband(self) -> Iterator[tuple[str, float]]:
        """Rates in Gbit/s of InfiniBand and RoCE ports."""
        for port in sorted(self._sys.glob("class/infiniband/*/ports/*")):
            active = _read(port / "state").startswith(_ACTIVE)
            name = f"{port.parent.parent.name}/{port.name}"
            yield name, _number(_read(port / "rate").partition(" ")[0]) if active else 0.0

    def _faults(self) -> Iterator[str]:
        counts = [_number(_read(path)) for path in self._sys.glob("devices/system/edac/mc/mc*/ue_count")]
        if sum(counts) > 0:
            yield f"memory: {sum(counts):.0f} uncorrected errors"

    def _data(self) -> list[str]:
        if self._cache is None:
            return []
        try:
            names = sorted(path.name for path in self._cache.iterdir())
        except OSError:
            return []
        found = [match.group(1) for name in names if (match := _DATA.match(name))]
        return [f"sha256:{digest}" for digest in found[:MOST_DATA]]


def _read(path: Path) -> str:
    """A file of /sys; empty where it cannot be read (an interface that is down refuses its speed)."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
