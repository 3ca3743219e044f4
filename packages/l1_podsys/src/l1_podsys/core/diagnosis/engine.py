"""Runs all rules and orders what they found: causes first, symptoms folded into their cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .bandwidth import BANDWIDTH_RULES
from .fabric import FABRIC_RULES
from .gpu import GPU_RULES
from .model import Finding, Texts
from .pcie import PCIE_RULES
from .software import SOFTWARE_RULES

Rule = Callable[[Texts], Iterator[Finding]]
RULES: list[Rule] = [*PCIE_RULES, *GPU_RULES, *FABRIC_RULES, *BANDWIDTH_RULES, *SOFTWARE_RULES]

#: cause: the faults that it explains when both are found (at the same place, where both name one).
EXPLAINS: dict[str, tuple[str, ...]] = {
    "pcie-surprise-down": ("gpu-off-bus", "pcie-errors"),
    "fabric-manager-mismatch": ("cuda-system-not-ready", "fabric-manager-required"),
    "fabric-manager-failed": ("cuda-system-not-ready", "fabric-manager-required"),
    "gpu-row-remap-failed": ("gpu-row-remap-pending", "gpu-memory-error"),
    "gpu-row-remap-pending": ("gpu-memory-error",),
    "gpu-off-bus": ("cuda-no-device", "gpu-gsp-timeout"),
    "gpudirect-rdma-off": ("nccl-bandwidth-low",),
    "iommu-translates-p2p": ("nccl-bandwidth-low",),
    "roce-lossy": ("nccl-bandwidth-low",),
}


def diagnose(texts: Mapping[str, str]) -> list[Finding]:
    """Findings, the surest first.  What a found cause explains is told as its symptom, not twice."""
    read = Texts(texts)
    found = [finding for rule in RULES for finding in rule(read)]
    explained: set[int] = set()
    for finding in found:
        for index, other in enumerate(found):
            if other.fault in EXPLAINS.get(finding.fault, ()) and _same_place(finding, other):
                explained.add(index)
                finding.symptoms = [*finding.symptoms, other.fault]
                finding.evidence = [*finding.evidence, *other.evidence[:3]]
                finding.confidence = min(0.99, finding.confidence + 0.05)
    left = [finding for index, finding in enumerate(found) if index not in explained]
    return sorted(left, key=lambda finding: (-finding.confidence, finding.fault, finding.where))


def _same_place(one: Finding, other: Finding) -> bool:
    """Faults of different GPUs do not explain each other; a port explains what hangs below it."""
    if one.fault.startswith("gpu-") and other.fault.startswith("gpu-") and one.where and other.where:
        return one.where == other.where
    return True
