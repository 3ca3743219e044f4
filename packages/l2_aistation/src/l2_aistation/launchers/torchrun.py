"""torchrun: each task is a rank, started with the environment that torchrun gives its workers.

The platform does torchrun's own work: rendezvous, restarts, and the end of a gang.  With
`processes_per_node` a task is a node instead, and a real torchrun starts the ranks there.
Source of the variables: torch/distributed/run.py, "Environment Variables" (PyTorch 2.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec, Preset

from .launcher import Launch, Launcher, Option, Place, python


def elastic_environment(place: Place) -> dict[str, str]:
    """What torchrun's workers find beyond rank, world size and master."""
    return {
        "GROUP_WORLD_SIZE": str(place.nodes),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(place.rank),
        "ROLE_WORLD_SIZE": str(place.world_size),
        "TORCHELASTIC_RUN_ID": place.job,
        "TORCHELASTIC_RESTART_COUNT": str(place.attempt - 1),
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }


class Torchrun(Launcher):
    """PyTorch's launcher."""

    name = "torchrun"
    options: ClassVar[Mapping[str, Option]] = {
        "processes_per_node": Option(int, least=1),
        "learning_rate": Option(float, "--lr", least=0),
        "epochs": Option(int, "--epochs", least=1),
        "steps": Option(int, "--steps", least=1),
        "batch_size": Option(int, "--batch-size", least=1),
        "seed": Option(int, "--seed"),
    }

    def check(self, spec: JobSpec, number: int) -> None:
        """Also: a task that is a whole node must be alone there."""
        super().check(spec, number)
        group, where = spec.tasks[number], f"tasks.{number}.preset"
        if group.preset and "processes_per_node" in group.preset.options and not group.one_per_node:
            raise BadInput(
                "a task that starts processes_per_node ranks must be alone on its node",
                field=f"{where}.options.processes_per_node",
                do="set one_per_node, or leave it out: then each task is a rank",
            )

    def launch(self, preset: Preset, place: Place) -> Launch:
        """A rank, or a torchrun of this node."""
        assert preset.script is not None
        script = [preset.script, *self.flags(preset.options), *preset.arguments]
        processes = preset.options.get("processes_per_node")
        if processes is None:
            return Launch(python(script), elastic_environment(place))
        agent = [
            f"--nnodes={place.world_size}",
            f"--node-rank={place.rank}",
            f"--nproc-per-node={processes}",
            f"--master-addr={place.master}",
            f"--master-port={place.port}",
            "--max-restarts=0",
        ]
        return Launch(python(["-m", "torch.distributed.run", *agent, *script]))
