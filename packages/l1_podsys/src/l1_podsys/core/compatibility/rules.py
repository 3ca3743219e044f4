"""What must hold between components.  A rule speaks only when all components that it reads are known.

Sources: NVIDIA CUDA compatibility guide (table 1), NVIDIA driver READMEs (open kernel modules), the
Fabric Manager user guide (version equal to the driver's), NVIDIA GPUDirect RDMA guide (DMA-BUF).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .stack import Stack, number

GENERATIONS = ("volta", "turing", "ampere", "ada", "hopper", "blackwell")
OLDEST_DRIVER = {"volta": 384, "turing": 410, "ampere": 450, "ada": 525, "hopper": 525, "blackwell": 570}
OLDEST_DRIVER_FOR_CUDA = {11: 450, 12: 525, 13: 580}


class Rule(NamedTuple):
    """A rule: the components it reads, whether it holds, and what it says."""

    name: str
    reads: tuple[str, ...]
    holds: Callable[[Stack], bool]
    says: str


def _generation(stack: Stack) -> int:
    return GENERATIONS.index(stack["gpu"]) if stack["gpu"] in GENERATIONS else -1


def _cuda_has_driver(stack: Stack) -> bool:
    oldest = OLDEST_DRIVER_FOR_CUDA.get(number(stack["cuda"])[0])
    return oldest is None or number(stack["driver"])[0] >= oldest


def _fabricmanager_equals_driver(stack: Stack) -> bool:
    return stack["fabricmanager"] == "none" or number(stack["fabricmanager"]) == number(stack["driver"])


def _fabricmanager_where_nvswitch(stack: Stack) -> bool:
    return (stack["nvswitch"] == "yes") == (stack["fabricmanager"] != "none")


def _module_fits_gpu(stack: Stack) -> bool:
    generation = _generation(stack)
    if generation < 0:
        return True
    if stack["module"] == "open":
        return generation >= GENERATIONS.index("turing")
    return generation < GENERATIONS.index("blackwell")


def _driver_knows_gpu(stack: Stack) -> bool:
    return number(stack["driver"])[0] >= OLDEST_DRIVER.get(stack["gpu"], 0)


def _open_module_exists(stack: Stack) -> bool:
    return stack["module"] != "open" or number(stack["driver"])[0] >= 515


def _dma_buf(stack: Stack) -> bool:
    if stack["gpudirect"] != "dma-buf":
        return True
    return stack["module"] == "open" and number(stack["kernel"])[:2] >= (5, 12)


def _dma_buf_cuda(stack: Stack) -> bool:
    return stack["gpudirect"] != "dma-buf" or number(stack["cuda"])[:2] >= (11, 7)


def _cuda_knows_gpu(stack: Stack) -> bool:
    oldest = {"ada": (11, 8), "hopper": (11, 8), "blackwell": (12, 8)}.get(stack["gpu"], (0,))
    if stack["gpu"] == "volta":
        return number(stack["cuda"])[0] < 13
    return number(stack["cuda"])[:2] >= oldest


RULES: list[Rule] = [
    Rule(
        "cuda-needs-driver",
        ("cuda", "driver"),
        _cuda_has_driver,
        "CUDA 13 needs driver 580+, 12 525+, 11 450+",
    ),
    Rule(
        "fabricmanager-equals-driver",
        ("fabricmanager", "driver"),
        _fabricmanager_equals_driver,
        "Fabric Manager and driver must be of the same version",
    ),
    Rule(
        "fabricmanager-where-nvswitch",
        ("fabricmanager", "nvswitch"),
        _fabricmanager_where_nvswitch,
        "Fabric Manager is needed with NVSwitch, and only there",
    ),
    Rule(
        "module-fits-gpu",
        ("module", "gpu"),
        _module_fits_gpu,
        "the open module needs Turing or newer; Blackwell needs the open module",
    ),
    Rule(
        "driver-knows-gpu",
        ("driver", "gpu"),
        _driver_knows_gpu,
        "the driver is older than this GPU generation",
    ),
    Rule(
        "cuda-knows-gpu", ("cuda", "gpu"), _cuda_knows_gpu, "this CUDA does not support this GPU generation"
    ),
    Rule(
        "open-module-exists",
        ("module", "driver"),
        _open_module_exists,
        "open modules exist from driver 515 on",
    ),
    Rule(
        "dma-buf-kernel",
        ("gpudirect", "module", "kernel"),
        _dma_buf,
        "DMA-BUF needs the open module and kernel 5.12 or newer",
    ),
    Rule("dma-buf-cuda", ("gpudirect", "cuda"), _dma_buf_cuda, "DMA-BUF needs CUDA 11.7 or newer"),
]
