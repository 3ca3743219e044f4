"""Megatron-LM: torchrun's environment, parallel sizes and checkpoints in Megatron's words.

Source of the words: megatron/training/arguments.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec, Preset

from .launcher import PRECISIONS, Launch, Launcher, Option, Place, python
from .torchrun import elastic_environment

PARALLEL = ("tensor_parallel", "pipeline_parallel", "context_parallel")


class Megatron(Launcher):
    """Megatron-LM's training scripts."""

    name = "megatron"
    options: ClassVar[Mapping[str, Option]] = {
        "tensor_parallel": Option(int, "--tensor-model-parallel-size", least=1),
        "pipeline_parallel": Option(int, "--pipeline-model-parallel-size", least=1),
        "context_parallel": Option(int, "--context-parallel-size", least=1),
        "expert_parallel": Option(int, "--expert-model-parallel-size", least=1),
        "sequence_parallel": Option(bool, "--sequence-parallel"),
        "micro_batch_size": Option(int, "--micro-batch-size", least=1),
        "batch_size": Option(int, "--global-batch-size", least=1),
        "sequence_length": Option(int, "--seq-length", least=1),
        "learning_rate": Option(float, "--lr", least=0),
        "steps": Option(int, "--train-iters", least=1),
        "save_every": Option(int, "--save-interval", least=1),
        "seed": Option(int, "--seed"),
        "precision": Option(PRECISIONS),
    }

    def check(self, spec: JobSpec, number: int) -> None:
        """Also: the parallel sizes divide the gang."""
        super().check(spec, number)
        group, where = spec.tasks[number], f"tasks.{number}.preset"
        options = group.preset.options if group.preset else {}
        size = 1
        for name in PARALLEL:
            size *= int(options.get(name, 1))
        if group.count % size:
            raise BadInput(
                f"{group.count} tasks do not divide into groups of {size} (tensor x pipeline x context)",
                field=f"{where}.options",
                do=f"let count be a multiple of {size}, or choose smaller parallel sizes",
            )

    def launch(self, preset: Preset, place: Place) -> Launch:
        """A rank; saves to and loads from the job's checkpoint folder."""
        assert preset.script is not None
        words = [preset.script, *self.flags(preset.options)]
        precision = preset.options.get("precision", "fp32")
        if precision != "fp32":
            words.append(f"--{precision}")
        if place.checkpoint is not None:
            words += ["--save", place.checkpoint, "--load", place.checkpoint]
        words += ["--distributed-backend", "nccl" if place.accelerators else "gloo"]
        environment = {**elastic_environment(place), "CUDA_DEVICE_MAX_CONNECTIONS": "1"}
        return Launch(python([*words, *preset.arguments]), environment)
