"""MPI: one task a node; rank 0's runs mpirun, the others wait for the daemon that it sends.

No SSH between nodes: Open MPI's remote-shell agent is a program of ours that leaves the daemon's
command line in the job's folder, where the waiting task of that node takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec, Preset

from .launcher import Launch, Launcher, Option, Place


class Mpi(Launcher):
    """Open MPI's mpirun."""

    name = "mpi"
    options: ClassVar[Mapping[str, Option]] = {
        "processes_per_node": Option(int, least=1),
        "python": Option(bool),
        "learning_rate": Option(float, "--lr", least=0),
        "epochs": Option(int, "--epochs", least=1),
        "steps": Option(int, "--steps", least=1),
        "batch_size": Option(int, "--batch-size", least=1),
        "seed": Option(int, "--seed"),
    }

    def check(self, spec: JobSpec, number: int) -> None:
        """Also: MPI has one daemon a node, so a task is a node."""
        super().check(spec, number)
        group, where = spec.tasks[number], f"tasks.{number}.preset"
        if not group.one_per_node and group.count > 1:
            raise BadInput(
                "mpi starts one daemon a node",
                field=f"{where}.name",
                do="set one_per_node, and options.processes_per_node to the ranks of a node",
            )
        if len(spec.tasks) > 1:
            raise BadInput("mpi takes the whole gang", field=where, do="give one group of tasks")

    def launch(self, preset: Preset, place: Place) -> Launch:
        """`python -m l2_aistation.launchers.mpi_node PROCESSES -- PROGRAM…`."""
        assert preset.script is not None
        processes = preset.options.get("processes_per_node", max(place.accelerators, 1))
        program = ["python", "-u"] if preset.options.get("python", preset.script.endswith(".py")) else []
        program += [preset.script if program or "/" in preset.script else f"./{preset.script}"]
        words = [*program, *self.flags(preset.options), *preset.arguments]
        node = ("python", "-P", "-m", "l2_aistation.launchers.mpi_node", str(processes), "--", *words)
        return Launch(node)
