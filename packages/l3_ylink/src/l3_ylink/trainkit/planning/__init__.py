"""Planning: how a model is laid out over ranks, and what that costs, before anything runs."""

from .cost import (
    Memory,
    StateBytes,
    activation_bytes,
    forward_flops,
    hardware_flops,
    mfu,
    model_state_bytes,
    parameter_count,
    step_flops,
)
from .plan import make_plan, wanted_world
from .shapes import preset_names, read_shape

__all__ = [
    "Memory",
    "StateBytes",
    "activation_bytes",
    "forward_flops",
    "hardware_flops",
    "make_plan",
    "mfu",
    "model_state_bytes",
    "parameter_count",
    "preset_names",
    "read_shape",
    "step_flops",
    "wanted_world",
]
