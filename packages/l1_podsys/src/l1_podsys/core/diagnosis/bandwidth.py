"""Measured bandwidth and latency that are too low or too high for the hardware.

Published values: 8 GPUs of one host, NCCL all-reduce bus bandwidth at large sizes: A100 235 GB/s, H100
460-480, H200 477 (Azure's node health checks, superbenchmark's data).  Peer-to-peer latency over
NVLink 2 to 3.5 us, through an IOMMU 10 to 20 us.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .model import Evidence, Finding, Texts, evidence

P2P_LATENCY_US, P2P_LATENCY_BAD_US = 3.5, 8.0
#: GPU of one host with NVSwitch: bus bandwidth in GB/s that an all-reduce over 8 reaches.
ALL_REDUCE_8 = {"A100": 228.0, "H100": 440.0, "H200": 450.0, "H800": 180.0, "A800": 150.0}
LARGE = 1 << 28


@dataclass
class Matrix:
    """One table of p2pBandwidthLatencyTest."""

    head: Evidence
    values: list[list[float]] = field(default_factory=list)
    rows: list[Evidence] = field(default_factory=list)

    def others(self) -> list[float]:
        """Values between two different GPUs."""
        return [v for i, row in enumerate(self.values) for j, v in enumerate(row) if i != j]


def matrices(texts: Texts) -> Iterator[Matrix]:
    """All tables; the CPU half of a latency table is left out."""
    for name, lines in texts.lines.items():
        current: Matrix | None = None
        for number, line in enumerate(lines, 1):
            if "Matrix (" in line:
                if current is not None and current.values:
                    yield current
                current = Matrix(evidence(name, number, line))
            elif current is not None and re.match(r"\s*\d+(\s+\d+\.\d+)+\s*$", line):
                current.values.append([float(word) for word in line.split()[1:]])
                current.rows.append(evidence(name, number, line))
            elif current is not None and current.values:
                yield current
                current = None
        if current is not None and current.values:
            yield current


def p2p(texts: Texts) -> Iterator[Finding]:
    """Slow peer-to-peer although it is enabled."""
    latency = bandwidth = None
    for matrix in matrices(texts):
        if "P2P=Enabled Latency" in matrix.head.text:
            latency = matrix
        elif "Unidirectional P2P=Enabled" in matrix.head.text:
            bandwidth = matrix
    if latency is None or not latency.others():
        return
    worst = max(latency.others())
    if worst <= P2P_LATENCY_BAD_US:
        return
    rates = bandwidth.others() if bandwidth else []
    boot = list(texts.find(r"(?:intel_iommu|amd_iommu|iommu)=on|DMAR: IOMMU enabled|AMD-Vi: Lazy IO/TLB"))
    rate = f" at {min(rates):.1f} GB/s" if rates else ""
    yield Finding(
        fault="iommu-translates-p2p",
        title=f"Peer-to-peer takes up to {worst:.1f} us{rate}",
        cause="Traffic between GPUs goes up to the root complex and through address translation: the "
        "IOMMU is on "
        "(or ACS redirects it).",
        fix="Boot with iommu=pt, or turn the IOMMU off in the BIOS; clear ACS on the bridges above the "
        "GPUs; then "
        "measure again.",
        confidence=0.95 if boot else 0.8,
        evidence=[
            latency.head,
            *latency.rows[:3],
            *([bandwidth.head, *bandwidth.rows[:2]] if bandwidth else []),
            *[hit.evidence for hit in boot[:2]],
        ],
        gain=f"latency from {worst:.1f} to about {P2P_LATENCY_US} us where NVLink or a PCIe switch joins "
        "the GPUs",
    )


def nccl_low(texts: Texts) -> Iterator[Finding]:
    """nccl-tests below what its GPUs reach on one host."""
    for name in texts.lines:
        one = Texts({name: "\n".join(texts.lines[name])})
        ranks = list(one.find(r"#\s+Rank\s+\d+.*on\s+(?P<host>\S+)\s+device\s+\d+ \[\S+\] (?P<model>.+)$"))
        if not ranks or len({hit["host"] for hit in ranks}) != 1 or len(ranks) != 8:
            continue
        known = next((m for m in ALL_REDUCE_8 if m in ranks[0]["model"]), None)
        row = re.compile(
            r"^\s*(?P<size>\d+)\s+\d+\s+\w+\s+(?:sum|prod|max|min|avg)\s+(?:-?\d+\s+)?[\d.]+\s+[\d.]+\s+(?P<bus>[\d.]+)"
        )
        large = [hit for hit in one.find(row) if int(hit["size"]) >= LARGE]
        if known is None or not large:
            continue
        best = max(float(hit["bus"]) for hit in large)
        if best >= 0.9 * ALL_REDUCE_8[known]:
            continue
        yield Finding(
            fault="nccl-bandwidth-low",
            title=f"NCCL reaches {best:.1f} GB/s bus bandwidth; 8 x {known} reach {ALL_REDUCE_8[known]:g}",
            cause="The GPUs do not use all of their NVLinks, or one is slower than the rest.",
            fix="nvidia-smi topo -m must show NV links between all GPUs and nvidia-smi nvlink -s all of "
            "them up; "
            "check Fabric Manager; repeat with NCCL_DEBUG=INFO and look for P2P over PCIe or SHM.",
            confidence=0.75,
            evidence=[ranks[0].evidence, *[hit.evidence for hit in large[-3:]]],
            gain=f"{best:.0f} to {ALL_REDUCE_8[known]:g} GB/s",
        )


BANDWIDTH_RULES = [p2p, nccl_low]
