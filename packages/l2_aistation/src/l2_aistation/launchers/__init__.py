"""Presets: a user gives a script and basic hyper-parameters, the placement gives the rest.

One file a preset.  `check` refuses what no launch could make of a spec; `resolve` turns a task's place
into its command and environment.  What only the node knows (interfaces, the shared folder's path, the
hostfile's) is added there, by the supervisor.
"""

from __future__ import annotations

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec, TaskGroup

from .deepspeed import DeepSpeed
from .hf import HuggingFace
from .launcher import Launch, Launcher, Place
from .megatron import Megatron
from .mpi import Mpi
from .notebook import Notebook, session_of
from .torchrun import Torchrun

LAUNCHERS: dict[str, Launcher] = {
    launcher.name: launcher
    for launcher in (Torchrun(), DeepSpeed(), Megatron(), Mpi(), HuggingFace(), Notebook())
}


def check(spec: JobSpec) -> None:
    """`BadInput` names the field of the first preset that no launch could follow."""
    for number, group in enumerate(spec.tasks):
        if group.preset is None:
            continue
        if group.preset.name not in LAUNCHERS:
            raise BadInput(
                f"there is no preset {group.preset.name!r}",
                field=f"tasks.{number}.preset.name",
                do=f"use one of {', '.join(LAUNCHERS)}, or give a command",
            )
        LAUNCHERS[group.preset.name].check(spec, number)


def resolve(group: TaskGroup, place: Place) -> Launch:
    """The command of a task and what its launcher adds to its environment."""
    if group.preset is None:
        return Launch(tuple(group.command))
    return LAUNCHERS[group.preset.name].launch(group.preset, place)


__all__ = ["LAUNCHERS", "Launch", "Launcher", "Place", "check", "resolve", "session_of"]
