"""Engines: where the tasks of a run are done.  An engine maps tasks to workers and knows nothing of data.

All of them start the same program beside the same folder, so that the result is the same byte by byte.
Nothing but files in the run's folder passes between a run and its workers; every node must see the folder
and the input.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from l3_ylink._kit.problems import BadInput

if TYPE_CHECKING:
    from l3_ylink.datakit.plan import RunPlan
    from l3_ylink.ports import JobRunner

Task = dict[str, Any]
EngineName = Literal["local", "slurm", "ray", "jobs"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)


class Engine(Protocol):
    """Something that has many workers."""

    def run(self, plan: RunPlan, tasks: Sequence[Task], workers: int) -> Generator[Task]:
        """Does the tasks; yields each worker's reply (`ok` or `problem`) as it comes, in any order."""
        ...

    def close(self) -> None:
        """Lets go of what the engine holds."""
        ...


def make_engine(
    name: str, *, runner: Callable[[], JobRunner] | None = None, shared: Path | None = None
) -> Engine | None:
    """The engine of this name; None is the local one.  `runner` and `shared` are for `jobs`.

    Raises `BadInput` for an unknown name and `Unavailable` where the engine's programs are missing.
    """
    if name == "slurm":
        from .slurm import SlurmEngine

        return SlurmEngine()
    if name == "ray":
        from .ray import RayEngine

        return RayEngine()
    if name == "jobs":
        from .jobs import JobsEngine

        if runner is None:
            raise BadInput("needs a runner of jobs", field="engine", do="give --runner local or aistation")
        return JobsEngine(runner, shared)
    if name != "local":
        raise BadInput(f"{name!r} is unknown", field="engine", do=f"take {', '.join(ENGINES)}")
    return None
