"""Faults of PCI Express: AER messages of the kernel, and what lspci -vvv shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .model import Evidence, Finding, Texts, evidence, shown

DEVICE = re.compile(
    r"^(?P<bus>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<kind>[^:\[]+?)(?: \[[0-9a-f]{4}\])?: "
)
ACCELERATORS = ("3D controller", "VGA compatible controller", "Processing accelerators")
ADAPTERS = ("Infiniband controller", "Ethernet controller")


@dataclass
class Device:
    """One function of an lspci listing."""

    bus: str
    kind: str
    head: Evidence
    lines: list[Evidence] = field(default_factory=list)

    def find(self, pattern: str) -> list[tuple[re.Match[str], Evidence]]:
        """Its lines that meet a pattern."""
        found = [(re.search(pattern, row.text), row) for row in self.lines]
        return [(match, row) for match, row in found if match]


def devices(texts: Texts) -> list[Device]:
    """All functions that lspci listings among the texts name."""
    found: list[Device] = []
    for name, lines in texts.lines.items():
        current: Device | None = None
        for number, line in enumerate(lines, 1):
            head = DEVICE.match(line)
            if head:
                current = Device(head["bus"], head["kind"].strip(), evidence(name, number, line))
                found.append(current)
            elif current is not None and line.startswith(("\t", " ")):
                current.lines.append(evidence(name, number, line))
            elif line.strip():
                current = None
    return found


def surprise_down(texts: Texts) -> Iterator[Finding]:
    """A port that lost its link: the cause of a GPU that is gone afterwards."""
    downs = list(texts.find(r"Surprise Down Error"))
    if not downs:
        return
    ports = list(texts.find(r"pcieport (?P<port>[0-9a-f:.]+): .*(?:Uncorrected|severity=Uncorrected)"))
    port = ports[0]["port"] if ports else ""
    replays = list(texts.find(r"Replay Timer Timeout|REPLAY_NUM Rollover|Bad TLP|Bad DLLP"))
    yield Finding(
        fault="pcie-surprise-down",
        title=f"The PCIe link below port {port or '(unnamed)'} went down",
        cause="The link between this port and the device below it was lost"
        + (
            ", after link errors that it could still correct: a failing connection, not a failing GPU."
            if replays
            else "."
        ),
        fix="Reseat the card, riser and cable below this port; move the card to another slot to tell "
        "slot from "
        "card; check the power connectors. Exchange the GPU only if the fault follows it.",
        confidence=0.9 if replays else 0.8,
        where=port,
        evidence=[*shown(ports)[:3], *shown(replays)[:3], *shown(downs)[:2]],
    )


def corrected_errors(texts: Texts) -> Iterator[Finding]:
    """Corrected errors without a lost link: a warning ahead of one."""
    ports: dict[str, list[Evidence]] = {}
    for hit in texts.find(r"(?P<port>[0-9a-f]{4}:[0-9a-f:.]+): PCIe Bus Error: severity=(?P<severity>\w+)"):
        ports.setdefault(hit["port"], []).append(hit.evidence)
    for port, rows in ports.items():
        fatal = [row for row in rows if "Uncorrected" in row.text]
        yield Finding(
            fault="pcie-errors",
            title=f"{port}: {len(rows)} PCIe errors, {len(fatal)} of them uncorrected",
            cause="The link repeats transfers, or delivers wrong ones: seating, riser, cable or signal "
            "quality.",
            fix="Watch the rate; reseat the card and riser, update the firmware of card and board.",
            confidence=0.75 if fatal else 0.6,
            where=port,
            evidence=rows[:6],
        )


def acs_on(texts: Texts) -> Iterator[Finding]:
    """Access control that sends traffic between two GPUs, or GPU and NIC, up to the root port."""
    found = [
        (device, match, row)
        for device in devices(texts)
        for match, row in device.find(r"ACSCtl:.*SrcValid(?P<valid>[+-]).*ReqRedir(?P<redirect>[+-])")
        if "+" in (match["valid"], match["redirect"])
    ]
    if found:
        redirected = [device.bus for device, match, _ in found if match["redirect"] == "+"]
        yield Finding(
            fault="pcie-acs-on",
            title=f"ACS is on at {len(found)} functions, {len(redirected)} of them redirect requests",
            cause="Access control services send peer-to-peer traffic up to the root complex: half the "
            "bandwidth, "
            "several times the latency, and GPUDirect may hang.",
            fix="Unless virtual machines need the isolation, clear it at each boot on the bridges above "
            "GPUs and "
            "NICs: setpci -s ADDRESS ECAP_ACS+0x6.w=0000; then measure again.",
            confidence=0.85 if redirected else 0.6,
            where=", ".join(redirected[:8] or [device.bus for device, _, _ in found][:8]),
            evidence=[
                Evidence(file=row.file, line=row.line, text=f"{device.bus} {row.text}")
                for device, _, row in found[:8]
            ],
        )


def narrow_link(texts: Texts) -> Iterator[Finding]:
    """An accelerator or adapter whose link is slower or narrower than it can be."""
    for device in devices(texts):
        if device.kind not in ACCELERATORS + ADAPTERS:
            continue
        able = device.find(r"LnkCap:.*Speed (?P<speed>[0-9.]+GT/s).*Width x(?P<width>\d+)")
        have = device.find(
            r"LnkSta:.*Speed (?P<speed>[0-9.]+GT/s)(?P<s>[^,]*), Width x(?P<width>\d+)(?P<w>.*)"
        )
        if not able or not have or "downgraded" not in have[0][0]["s"] + have[0][0]["w"]:
            continue
        yield Finding(
            fault="pcie-link-degraded",
            title=f"{device.bus} {device.kind}: x{have[0][0]['width']} at {have[0][0]['speed']}",
            cause=f"It can do x{able[0][0]['width']} at {able[0][0]['speed']}. (Some GPUs lower the "
            "speed while idle; "
            "a lower width is always a fault.)",
            fix="Measure under load; if it stays, reseat card and riser, check the slot's setting in the "
            "BIOS.",
            confidence=0.85 if "downgraded" in have[0][0]["w"] else 0.5,
            where=device.bus,
            evidence=[device.head, able[0][1], have[0][1]],
        )


PCIE_RULES = [surprise_down, corrected_errors, acs_on, narrow_link]
