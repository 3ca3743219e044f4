"""Faults of NVSwitch, InfiniBand and RoCE fabrics."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .model import Finding, Hit, Texts, shown

NVSWITCH_IDS = ("10de:1ac2", "10de:1af1", "10de:22a3", "10de:2900")
FLAPS_FOR_A_FINDING = 3


def fabric_manager_mismatch(texts: Texts) -> Iterator[Finding]:
    """Fabric Manager and driver must be of one and the same version."""
    pattern = (
        r"fabric manager NVIDIA GPU driver interface version (?P<fm>[0-9.]+) don't match with driver version "
        r"(?P<driver>[0-9.]+[0-9])"
    )
    hits = list(texts.find(pattern))
    if hits:
        fm, driver = hits[0]["fm"], hits[0]["driver"]
        yield Finding(
            fault="fabric-manager-mismatch",
            title=f"Fabric Manager {fm} does not fit driver {driver}",
            cause="Fabric Manager stops at start; NVSwitch stays down and CUDA fails with error 802.",
            fix=f"Install nvidia-fabricmanager-{driver.split('.')[0]} in version {driver} and hold both: "
            "apt-mark hold. Never update one without the other.",
            confidence=0.95,
            evidence=shown(hits),
        )


def fabric_manager_failed(texts: Texts) -> Iterator[Finding]:
    """The service failed for another reason."""
    if any(fabric_manager_mismatch(texts)):
        return
    hits = list(
        texts.find(r"nvidia-fabricmanager.*(?:Failed with result|status=\d+/FAILURE|entered failed state)")
    )
    if hits:
        yield Finding(
            fault="fabric-manager-failed",
            title="Fabric Manager does not run",
            cause="On a host with NVSwitch, CUDA cannot start without it (error 802).",
            fix="journalctl -u nvidia-fabricmanager; correct what it names; systemctl restart "
            "nvidia-fabricmanager.",
            confidence=0.85,
            evidence=shown(hits),
        )


def fabric_manager_required(texts: Texts) -> Iterator[Finding]:
    """NVSwitch is there: Fabric Manager must be too (on PCIe-only hosts it must not be)."""
    hits = list(texts.find("|".join(re.escape(f"[{name}]") for name in NVSWITCH_IDS)))
    runs = any(texts.find(r"nvidia-fabricmanager.*(?:active \(running\)|Started)"))
    if hits and not runs:
        yield Finding(
            fault="fabric-manager-required",
            title=f"{len(hits)} NVSwitch devices: this host needs Fabric Manager",
            cause="NVLink between its GPUs is set up by Fabric Manager; nothing given here shows that it "
            "runs.",
            fix="Install it in exactly the driver's version and enable nvidia-fabricmanager.service.",
            confidence=0.5,
            evidence=shown(hits),
        )


def gpudirect_off(texts: Texts) -> Iterator[Finding]:
    """NCCL says that it copies through host memory instead of straight between GPU and NIC."""
    hits = list(texts.find(r"NET/IB : GPU Direct RDMA Disabled for HCA (?P<index>\d+) '?(?P<name>[\w-]+)'?"))
    if hits:
        names = list(dict.fromkeys(hit["name"] for hit in hits))
        peermem = any(texts.find(r"nvidia_peermem|nvidia-peermem"))
        yield Finding(
            fault="gpudirect-rdma-off",
            title=f"GPUDirect RDMA is off for {', '.join(names)}",
            cause="NCCL found neither nvidia-peermem in use nor DMA-BUF support, so each message crosses "
            "host memory.",
            fix="With the open kernel module, kernel 5.12+ and CUDA 11.7+ use DMA-BUF; else modprobe "
            "nvidia-peermem "
            "after the RDMA drivers. Check that `lsmod` shows ib_core used by it, then measure again."
            + (" It was named here, but RDMA drivers loaded after it: load it again." if peermem else ""),
            confidence=0.9,
            where=", ".join(names),
            evidence=shown(hits),
            gain="bus bandwidth between hosts by 2 to 3 times (33 to 93 GB/s in a published case)",
        )


def peermem_context(texts: Texts) -> Iterator[Finding]:
    """nvidia-peermem loses its context: an application ended while its memory was still registered."""
    hits = list(texts.find(r"nvidia-peermem nv_get_p2p_free_callback.*invalid context"))
    if hits:
        yield Finding(
            fault="peermem-invalid-context",
            title=f"nvidia-peermem: {len(hits)} callbacks with an invalid context",
            cause="GPU memory was freed while an RDMA registration still held it; usually after a job "
            "was killed.",
            fix="Harmless alone. If jobs fail beside it: update driver and RDMA stack together, or use "
            "DMA-BUF.",
            confidence=0.7,
            evidence=shown(hits),
        )


def roce_lossy(texts: Texts) -> Iterator[Finding]:
    """Retransmissions on RoCE: the network drops what it should pause or mark."""
    counters: dict[str, dict[str, Hit]] = {}
    pattern = (
        r"(?:infiniband/(?P<device>[\w-]+)/ports/(?P<port>\d+)/hw_counters/)?"
        r"(?P<name>[a-z_]+): ?(?P<value>\d+)\s*$"
    )
    for hit in texts.find(pattern):
        counters.setdefault(f"{hit['device']}:{hit['port']}", {})[hit["name"]] = hit
    for place, rows in counters.items():
        bad = [rows[n] for n in ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err") if n in rows]
        if not bad or "out_of_sequence" not in rows or int(rows["out_of_sequence"]["value"]) < 1000:
            continue
        marks = rows.get("np_cnp_sent")
        marked = marks is not None and int(marks["value"]) > 0
        yield Finding(
            fault="roce-lossy",
            title=f"{place}: packets are lost on RoCE ({rows['out_of_sequence']['value']} out of sequence)",
            cause="The network drops RoCE packets: PFC or ECN are not the same on host and switch."
            + (" Congestion marks are sent (ECN works), so look at PFC and buffers first." if marked else ""),
            fix="On each host: mlnx_qos shows trust dscp and PFC on the RoCE priority only. On each "
            "switch port: the "
            "same priority lossless, ECN thresholds set, no drops in that queue. Same MTU on the whole path.",
            confidence=0.85,
            where=place,
            evidence=[hit.evidence for hit in [*bad, *([marks] if marks else [])]],
        )


def pfc_setting(texts: Texts) -> Iterator[Finding]:
    """mlnx_qos: RoCE v2 wants trust dscp and pause on exactly one priority."""
    for name, lines in texts.lines.items():
        text = "\n".join(lines)
        enabled = re.search(r"PFC configuration:\s+priority[ \t0-9]+\n\s*enabled(?P<bits>[ \t01]+)", text)
        if not enabled:
            continue
        bits = enabled["bits"].split()
        trust = re.search(r"Priority trust state: (\w+)", text)
        faults = []
        if trust and trust[1] != "dscp":
            faults.append(f"trust state is {trust[1]}, not dscp")
        if bits.count("1") != 1:
            faults.append(f"pause is on for {bits.count('1')} priorities, not one")
        if faults:
            hits = list(Texts({name: text}).find(r"Priority trust state|^\s*enabled"))
            yield Finding(
                fault="roce-pfc-setting",
                title=f"RoCE flow control is not set right: {'; '.join(faults)}",
                cause="Without trust dscp and one lossless priority, RoCE traffic is dropped under load.",
                fix="mlnx_qos -i IFACE --trust dscp --pfc 0,0,0,1,0,0,0,0, and the same on the switch.",
                confidence=0.85,
                evidence=shown(hits),
            )


def link_flaps(texts: Texts) -> Iterator[Finding]:
    """A port that loses its carrier again and again."""
    ports: dict[str, list[Hit]] = {}
    for hit in texts.find(r"(?P<port>\b[a-z][\w.-]*): (?:[Ll]ost carrier|[Ll]ink (?:is )?[Dd]own|Link down)"):
        ports.setdefault(hit["port"], []).append(hit)
    for port, hits in ports.items():
        if len(hits) >= FLAPS_FOR_A_FINDING:
            yield Finding(
                fault="link-flaps",
                title=f"{port} lost its link {len(hits)} times",
                cause="A cable, transceiver or port that does not hold the link.",
                fix="Clean and reseat the transceiver, exchange the cable, then the port; watch the "
                "error counters.",
                confidence=0.85,
                where=port,
                evidence=shown(hits),
            )


FABRIC_RULES = [
    fabric_manager_mismatch,
    fabric_manager_failed,
    fabric_manager_required,
    gpudirect_off,
    peermem_context,
    roce_lossy,
    pfc_setting,
    link_flaps,
]
