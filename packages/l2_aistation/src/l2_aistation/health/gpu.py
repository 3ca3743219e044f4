"""NVIDIA devices through NVML (extra `nvml`): lost ones, memory errors of each kind, rows to be remapped.

The kinds are kept apart as NVIDIA's documents on GPU memory error management do: corrected errors are
normal, uncorrectable ones end a process, a pending remap waits for a reset, a failed one needs a repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .finding import ABSENT, BAD, OK, WARN, Finding

NAME = "gpu"
_HOT_C = 90


@dataclass(frozen=True, slots=True)
class Device:
    """What NVML says of one device; `error` is its error's text where it does not answer."""

    bus: str
    error: str = ""
    uncorrected: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    temperature_c: int = 0


def look() -> list[Finding]:
    """All devices of this machine."""
    try:
        import pynvml  # the module of nvidia-ml-py
    except ImportError:
        return [Finding(NAME, ABSENT, evidence="nvidia-ml-py is not installed (extra nvml)")]
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [Finding(NAME, ABSENT, evidence=f"NVML: {error}")]
    try:
        count = pynvml.nvmlDeviceGetCount()
        return judge([_read(pynvml, number) for number in range(count)])
    finally:
        pynvml.nvmlShutdown()


def judge(devices: Sequence[Device]) -> list[Finding]:
    """Findings from what the devices say, the worst of each device."""
    if not devices:
        return [Finding(NAME, BAD, "cuda_init_failure", evidence="the driver is loaded and sees no device")]
    found = [finding for device in devices if (finding := _of(device)) is not None]
    return found or [Finding(NAME, OK, evidence=f"{len(devices)} devices")]


def _of(device: Device) -> Finding | None:
    def finding(state: str, label: str, evidence: str) -> Finding:
        return Finding(NAME, state, label, device.bus, evidence)

    if device.error:
        lost = "lost" in device.error.lower() or "fallen" in device.error.lower()
        return finding(BAD, "gpu_off_bus" if lost else "gpu_hw_unspecified", device.error)
    if device.remap_failed:
        return finding(BAD, "gpu_row_remap_failure", "a row could not be remapped")
    if device.uncorrected:
        return finding(
            BAD,
            "gpu_ecc_uncorrectable",
            f"{device.uncorrected} uncorrected memory errors since the driver was loaded",
        )
    if device.remap_pending:
        return finding(WARN, "benign", "a row is remapped at the next reset")
    if device.temperature_c >= _HOT_C:
        return finding(WARN, "straggler", f"{device.temperature_c} °C: clocks are lowered")
    return None


def _read(nvml: Any, number: int) -> Device:
    bus = f"device {number}"
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
        bus = nvml.nvmlDeviceGetPciInfo(handle).busId
        bus = bus.decode() if isinstance(bus, bytes) else str(bus)
        pending, failed = _remapped(nvml, handle)
        return Device(
            bus,
            "",
            _uncorrected(nvml, handle),
            pending,
            failed,
            int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        )
    except nvml.NVMLError as error:
        return Device(bus, str(error))


def _uncorrected(nvml: Any, handle: Any) -> int:
    try:
        kind, counter = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        return int(nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter))
    except nvml.NVMLError_NotSupported:
        return 0


def _remapped(nvml: Any, handle: Any) -> tuple[bool, bool]:
    try:
        _corrected, _uncorrected_rows, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
        return bool(pending), bool(failed)
    except nvml.NVMLError_NotSupported:
        return False, False
