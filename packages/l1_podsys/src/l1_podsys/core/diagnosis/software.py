"""CUDA does not start: what its error says about driver, library and services."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .model import Finding, Texts, shown


class Message(NamedTuple):
    """An error message and what it means."""

    fault: str
    pattern: str
    title: str
    cause: str
    fix: str
    confidence: float


MESSAGES = [
    Message(
        "cuda-system-not-ready",
        r"(?i)error 802|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|system not yet initialized",
        "CUDA error 802: the system is not ready",
        "NVSwitch is not set up: Fabric Manager does not run, or is of another version than the driver.",
        "systemctl status nvidia-fabricmanager; install it in exactly the driver's version, start it, "
        "try again.",
        0.85,
    ),
    Message(
        "driver-library-mismatch",
        r"Driver/library version mismatch|API mismatch: the client has (?:the )?version",
        "Library and loaded kernel module of the NVIDIA driver differ",
        "The driver's packages were updated under a running system; the old module is still loaded.",
        "Drain and reboot, or unload all nvidia modules and load them again; hold the packages with "
        "apt-mark hold.",
        0.95,
    ),
    Message(
        "cuda-driver-too-old",
        r"CUDA driver version is insufficient|CUDA_ERROR_INSUFFICIENT_DRIVER|cudaErrorInsufficientDriver|"
        r"NVIDIA driver on your system is too old",
        "The driver is too old for this CUDA",
        "CUDA 13 needs driver 580 or newer, 12 needs 525, 11 needs 450.",
        "Update the driver (with Fabric Manager), or use a CUDA that the driver carries.",
        0.95,
    ),
    Message(
        "cuda-forward-compatibility",
        r"(?i)forward compatibility was attempted on non supported HW|"
        r"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        "CUDA error 804: forward compatibility on hardware without it",
        "A compat libcuda (cuda-compat) is found before the driver's own.",
        "Remove cuda-compat from the library path, or update the driver.",
        0.9,
    ),
    Message(
        "cuda-no-device",
        r"no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE|No devices were found",
        "CUDA finds no GPU",
        "The driver is not loaded, the GPU is gone from the bus, or the container was given none.",
        "lspci | grep -i nvidia; nvidia-smi; dmesg | grep NVRM; then the container's device setting.",
        0.6,
    ),
]


def messages(texts: Texts) -> Iterator[Finding]:
    """One finding for each known message."""
    for message in MESSAGES:
        hits = list(texts.find(message.pattern))
        if hits:
            yield Finding(
                fault=message.fault,
                title=message.title,
                cause=message.cause,
                fix=message.fix,
                confidence=message.confidence,
                evidence=shown(hits),
            )


SOFTWARE_RULES = [messages]
