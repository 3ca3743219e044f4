"""PCI Express and boot options that decide bandwidth between GPU, NIC and storage: what is off, and why.

Sources: PCI Express Base Specification (Device Control, ACS Control), NVIDIA's GPUDirect Storage and
NCCL guides on ACS and IOMMU.  A host without accelerators gets no advice: nothing there depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from l1_podsys.core.facts import Facts, PciDevice

ACCELERATOR, BRIDGE, NETWORK = ("0300", "0302", "1200"), ("0604",), ("0200", "0207")
ACS_REDIRECT = 0x1D  # source validation, request and completion redirect, upstream forwarding
ACCELERATOR_VENDORS = ("10de", "1002", "8086")


class Advice(NamedTuple):
    """One thing that is off: a check's name, its value, what is expected, evidence and fix."""

    name: str
    value: str
    expected: str
    verdict: str
    evidence: list[str]
    fix: str


def advise(facts: Facts) -> list[Advice]:
    """What to change on this host; empty where all is well or nothing depends on it."""
    gpus = [d for d in facts.pci if d.kind in ACCELERATOR and d.vendor in ACCELERATOR_VENDORS and d.driver]
    if not gpus:
        return []
    return [*_acs(facts), *_links(gpus), *_payload(gpus), *_read_request(facts), *_iommu(facts)]


def _acs(facts: Facts) -> Iterator[Advice]:
    on = [d for d in facts.pci if d.kind in BRIDGE and d.acs_control and d.acs_control & ACS_REDIRECT]
    if on:
        yield Advice(
            "pcie-acs",
            f"on at {len(on)} bridges",
            "off on bridges above accelerators, unless virtual machines need isolation",
            "warn",
            [f"{d.address} ACSCtl {d.acs_control:#06x}" for d in on[:8]],
            "clear it on every boot: setpci -s ADDRESS ECAP_ACS+0x6.w=0000",
        )


def _links(gpus: list[PciDevice]) -> Iterator[Advice]:
    narrow = [
        d
        for d in gpus
        if d.current_link_width and d.max_link_width and d.current_link_width != d.max_link_width
    ]
    if narrow:
        yield Advice(
            "pcie-link-width",
            f"{len(narrow)} accelerators below their width",
            "current width = maximum width",
            "fail",
            [f"{d.address} x{d.current_link_width} of x{d.max_link_width}" for d in narrow],
            "reseat the card or riser; compare with another slot; look for AER errors of its port",
        )


def _payload(gpus: list[PciDevice]) -> Iterator[Advice]:
    low = [
        d
        for d in gpus
        if d.max_payload and d.max_payload_supported and d.max_payload < min(256, d.max_payload_supported)
    ]
    if low:
        yield Advice(
            "pcie-max-payload",
            f"{len(low)} accelerators at {low[0].max_payload} bytes",
            "256 bytes or more on the whole path",
            "warn",
            [f"{d.address} MaxPayload {d.max_payload} of {d.max_payload_supported}" for d in low],
            "set Max Payload Size to auto in the BIOS, or boot with pci=pcie_bus_perf",
        )


def _read_request(facts: Facts) -> Iterator[Advice]:
    low = [
        d
        for d in facts.pci
        if d.kind in NETWORK and d.vendor == "15b3" and d.max_read_request and d.max_read_request < 4096
    ]
    if low:
        yield Advice(
            "pcie-max-read-request",
            f"{len(low)} adapters at {low[0].max_read_request} bytes",
            "4096 bytes on RDMA adapters",
            "warn",
            [f"{d.address} MaxReadReq {d.max_read_request}" for d in low],
            "setpci -s ADDRESS CAP_EXP+8.w=5000:7000",
        )


def _iommu(facts: Facts) -> Iterator[Advice]:
    options = set(facts.cmdline)
    forced = options & {"intel_iommu=on", "amd_iommu=on", "iommu=on"}
    if forced and "iommu=pt" not in options:
        yield Advice(
            "iommu",
            " ".join(sorted(forced)),
            "iommu=pt (pass-through) beside it, or the IOMMU off",
            "warn",
            [f"boot options: {' '.join(facts.cmdline)}"],
            "add iommu=pt to the boot options: translated peer-to-peer traffic is slow or hangs NCCL",
        )
