"""What a gang needs, in the pool's units."""

from __future__ import annotations

from dataclasses import dataclass

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec

LEVELS = ("node", "rack", "leaf", "spine", "site")
"""The levels of the network, the finest first."""


@dataclass(frozen=True, slots=True)
class TaskDemand:
    """`count` equal tasks and what each of them needs."""

    task: str
    count: int
    cpu_milli: int
    memory_bytes: int = 0
    accelerators: int = 0
    model: str | None = None
    one_per_node: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """A gang's demand.

    `least` below the count makes a gang of one group elastic: the largest size from `least` on
    that fits is taken.  Equal demands fit or fail alike, so one that failed is not tried twice.
    """

    groups: tuple[TaskDemand, ...]
    least: int
    preferred: str | None = "leaf"
    required: str | None = None

    @property
    def count(self) -> int:
        """Tasks at full size."""
        return sum(group.count for group in self.groups)

    @property
    def accelerators(self) -> int:
        """Accelerators at full size."""
        return sum(group.count * group.accelerators for group in self.groups)

    @property
    def cpu_milli(self) -> int:
        """Thousandths of a core at full size."""
        return sum(group.count * group.cpu_milli for group in self.groups)

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory at full size."""
        return sum(group.count * group.memory_bytes for group in self.groups)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(group.task for group in self.groups)


MOST_TASKS = 1 << 20
MOST_CORES = 1 << 20
MOST_BYTES = 1 << 53
MOST_PRIORITY = 1_000_000
"""Bounds that no real job meets; beyond them arithmetic on 64 bits would not be exact."""


def demand_of(spec: JobSpec) -> Demand:
    """A spec's demand; `BadInput` names the field that contradicts another."""
    names = [group.name for group in spec.tasks]
    if len(set(names)) != len(names):
        raise BadInput("two groups of tasks have one name", field="tasks", do="give each its own name")
    for field in ("preferred", "required"):
        level = getattr(spec.topology, field)
        if level is not None and level not in LEVELS:
            raise BadInput(
                f"{level!r} is no level", field=f"topology.{field}", do=f"use one of {', '.join(LEVELS)}"
            )
    _check_bounds(spec)
    least, counts = _sizes(spec)
    groups = tuple(
        TaskDemand(
            task=group.name,
            count=count,
            cpu_milli=max(round(group.resources.cpu_cores * 1000), 1),
            memory_bytes=group.resources.memory_bytes,
            accelerators=group.resources.accelerators,
            model=group.resources.accelerator_model,
            one_per_node=group.one_per_node,
        )
        for group, count in zip(spec.tasks, counts, strict=True)
    )
    return Demand(groups, least, spec.topology.preferred, spec.topology.required)


def _check_bounds(spec: JobSpec) -> None:
    if abs(spec.priority) > MOST_PRIORITY:
        raise BadInput(f"must lie within ±{MOST_PRIORITY}", field="priority")
    if spec.gang is not None and spec.gang.max > MOST_TASKS:
        raise BadInput(f"must be {MOST_TASKS} at most", field="gang.max")
    for number, group in enumerate(spec.tasks):
        bounds = (
            ("count", group.count, MOST_TASKS),
            ("resources.cpu_cores", group.resources.cpu_cores, MOST_CORES),
            ("resources.memory_bytes", group.resources.memory_bytes, MOST_BYTES),
            ("resources.accelerators", group.resources.accelerators, MOST_TASKS),
        )
        for name, value, most in bounds:
            if not value <= most:
                raise BadInput(f"must be {most} at most", field=f"tasks.{number}.{name}")


def _sizes(spec: JobSpec) -> tuple[int, list[int]]:
    """The least size of the gang, and the full size of each group."""
    counts = [group.count for group in spec.tasks]
    gang = spec.gang
    if gang is None:
        return sum(counts), counts
    if len(counts) == 1:
        if not gang.min <= counts[0] <= gang.max:
            raise BadInput(
                f"count {counts[0]} is not within {gang.min} and {gang.max}",
                field="gang",
                do="let tasks.0.count lie within the gang's min and max",
            )
        return gang.min, [gang.max]
    if not gang.min == gang.max == sum(counts):
        raise BadInput(
            "only a gang of one group of tasks can be elastic",
            field="gang",
            do=f"leave it out, or set min and max to {sum(counts)}",
        )
    return sum(counts), counts
