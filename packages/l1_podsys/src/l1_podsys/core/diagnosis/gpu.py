"""Faults of a GPU itself, from the kernel's log, nvidia-smi and dcgmi.

Xid numbers and their actions: NVIDIA's Xid catalog.  A pending row remap (Xid 63) is done by a reset;
a failed one (Xid 64) never is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .model import Finding, Hit, Texts, shown

XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\): (?P<xid>\d+)")


def short_bus(bus: str) -> str:
    """One spelling of a PCI address: 0000:02:00, whatever the source writes."""
    found = re.match(r"(?:0000)?([0-9a-fA-F]{4}:)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2})", bus)
    return f"{(found[1] or '0000:').lower()}{found[2].lower()}" if found else bus.lower()


def xids(texts: Texts, *numbers: int) -> dict[str, list[Hit]]:
    """Lines with these Xid numbers, by GPU."""
    found: dict[str, list[Hit]] = {}
    for hit in texts.find(XID):
        if int(hit["xid"]) in numbers:
            found.setdefault(short_bus(hit["bus"]), []).append(hit)
    return found


def off_bus(texts: Texts) -> Iterator[Finding]:
    """Xid 79, and the driver's message over several lines that carries no Xid."""
    places = xids(texts, 79)
    for hit in texts.find(r"NVRM: The NVIDIA GPU (?P<bus>[0-9a-fA-F:.]+)"):
        rest = texts.following(hit, 3)
        if any("fallen off the bus" in row.text for row in rest):
            places.setdefault(short_bus(hit["bus"]), []).append(hit)
    for hit in texts.find(
        r"Unable to determine the device handle for GPU ?(?P<bus>[0-9a-fA-F:.]+).*GPU is lost"
    ):
        places.setdefault(short_bus(hit["bus"]), []).append(hit)
    for bus, hits in places.items():
        yield Finding(
            fault="gpu-off-bus",
            title=f"GPU {bus} dropped off the PCIe bus",
            cause="The GPU no longer answers on PCIe: power, heat, seating, riser, or a link error above it.",
            fix="Drain the host, look for AER errors of the port above and at power and temperature, "
            "then cold-"
            "boot; if it comes back, reseat or exchange card and riser.",
            confidence=0.9,
            where=bus,
            evidence=[*shown(hits), *[row for row in texts.following(hits[0], 2) if "NVRM" in row.text]],
        )


def gsp_timeout(texts: Texts) -> Iterator[Finding]:
    """Xid 119 and 120: the GPU's system processor does not answer."""
    for bus, hits in xids(texts, 119, 120).items():
        yield Finding(
            fault="gpu-gsp-timeout",
            title=f"GPU {bus}: its system processor (GSP) does not answer",
            cause="GSP firmware hangs; RPCs from the driver time out.",
            fix="Drain the host and reset the GPU (nvidia-smi --gpu-reset); if it repeats, update the driver "
            "or boot with NVreg_EnableGpuFirmware=0, where the driver still allows it.",
            confidence=0.9,
            where=bus,
            evidence=shown(hits),
        )


def memory_errors(texts: Texts) -> Iterator[Finding]:
    """Xid 48, 94, 95: uncorrectable errors of the GPU's memory."""
    for bus, hits in xids(texts, 48, 94, 95).items():
        contained = all(hit["xid"] != "95" for hit in hits)
        yield Finding(
            fault="gpu-memory-error",
            title=f"GPU {bus}: uncorrectable memory error, {'contained' if contained else 'not contained'}",
            cause="A double bit error in the GPU's memory; the application that read it was ended.",
            fix="Restart the application; run `nvidia-smi -q -d ROW_REMAPPER` and reset the GPU when a remap "
            "is pending." + ("" if contained else " Not contained: reset the GPU before anything else runs."),
            confidence=0.85,
            where=bus,
            evidence=shown(hits),
        )


def row_remap(texts: Texts) -> Iterator[Finding]:
    """Xid 63 and 64, and the remapped rows of nvidia-smi -q."""
    pending, failed = xids(texts, 63), xids(texts, 64)
    for name, lines in texts.lines.items():
        bus = ""
        inside = False
        for number, line in enumerate(lines, 1):
            gpu = re.match(r"GPU (?P<bus>[0-9A-Fa-f:.]+)\s*$", line)
            bus = short_bus(gpu["bus"]) if gpu else bus
            inside = "Remapped Rows" in line or (inside and line.startswith("    "))
            wanted = re.search(r"(Pending|Remapping Failure Occurred)\s+: Yes", line) if inside else None
            if wanted and bus:
                target = pending if wanted[1] == "Pending" else failed
                target.setdefault(bus, []).append(_hit_of(name, number, line, wanted))
    for bus, hits in failed.items():
        yield Finding(
            fault="gpu-row-remap-failed",
            title=f"GPU {bus}: a memory row could not be remapped",
            cause="No spare row is left for a bad one; a reset does not help.",
            fix="Take the GPU out of service and have it exchanged.",
            confidence=0.95,
            where=bus,
            evidence=shown(hits),
        )
    for bus, hits in pending.items():
        yield Finding(
            fault="gpu-row-remap-pending",
            title=f"GPU {bus}: a memory row waits for its remapping",
            cause="A row with an uncorrectable error is marked; it is exchanged at the next reset.",
            fix="Drain the host, reset the GPU (nvidia-smi --gpu-reset) or reboot, then run dcgmi diag -r 2.",
            confidence=0.9,
            where=bus,
            evidence=shown(hits),
        )


def _hit_of(name: str, number: int, line: str, match: re.Match[str]) -> Hit:
    from .model import evidence

    return Hit(match, evidence(name, number, line))


def persistence_off(texts: Texts) -> Iterator[Finding]:
    """dcgmi diag fails its persistence check, whose text is broken over table cells."""
    hits = list(texts.find(r"\| Persistence Mode\s+\| Fail"))
    if hits:
        yield Finding(
            fault="gpu-persistence-off",
            title="Persistence mode is off",
            cause="The driver unloads each GPU's state when no client holds it: first use takes seconds.",
            fix="systemctl enable --now nvidia-persistenced (or nvidia-smi -pm 1).",
            confidence=0.9,
            evidence=[*shown(hits), *texts.following(hits[0], 3)],
        )


GPU_RULES = [off_bus, gsp_timeout, memory_errors, row_remap, persistence_off]
