"""What a gang needs, in the pool's units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec, PlacementRules, Resources
from l2_aistation.documents import Relation as RelationPart

LEVELS = ("node", "rack", "leaf", "spine", "site")
"""The levels of the network, the finest first."""


@dataclass(frozen=True, slots=True)
class TaskDemand:
    """`count` equal tasks and what each of them needs.

    With `share_milli` (thousandths) or `share_bytes` (memory) a task needs that part of one
    accelerator.  `models` are those that will do; with `model` only that one.
    """

    task: str
    count: int
    cpu_milli: int
    memory_bytes: int = 0
    accelerators: int = 0
    model: str | None = None
    one_per_node: bool = False
    share_milli: int = 0
    share_bytes: int = 0
    models: tuple[str, ...] = ()

    @property
    def part(self) -> bool:
        """Whether each task shares an accelerator with others."""
        return bool(self.share_milli or self.share_bytes)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The models that will do; empty: any."""
        return (self.model,) if self.model is not None else self.models


@dataclass(frozen=True, slots=True)
class Relation:
    """Jobs of the same tenant with all of these labels, and the level at which to meet or avoid them."""

    labels: tuple[tuple[str, str], ...]
    level: str = "node"
    required: bool = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a job with these labels is meant."""
        return all(labels.get(key) == value for key, value in self.labels)


@dataclass(frozen=True, slots=True)
class Rules:
    """Beyond topology: near which jobs, apart from which, and how far the own tasks spread.

    With `most_per_domain`, so many tasks at most in one domain of `spread_level`; without, as evenly
    over its domains as they fit.
    """

    near: tuple[Relation, ...] = ()
    apart: tuple[Relation, ...] = ()
    spread_level: str | None = None
    most_per_domain: int | None = None


@dataclass(frozen=True, slots=True)
class Demand:
    """A gang's demand.

    `least` below the count makes a gang of one group elastic: the largest size from `least` on
    that fits is taken, in multiples of `unit`.  Equal demands fit or fail alike, so one that failed is
    not tried twice; only those with `near`, `apart` or `data` depend on more than the pool's free room
    (`alone`).
    """

    groups: tuple[TaskDemand, ...]
    least: int
    preferred: str | None = "leaf"
    required: str | None = None
    rules: Rules | None = None
    data: tuple[str, ...] = ()
    unit: int = 1
    count: int = field(init=False, compare=False, repr=False)
    """Tasks at full size."""
    accelerators: int = field(init=False, compare=False, repr=False)
    """Accelerators at full size; a part of one counts as one."""
    accelerator_milli: int = field(init=False, compare=False, repr=False)
    """Thousandths of accelerators at full size; a part asked for by memory counts as a whole one."""
    cpu_milli: int = field(init=False, compare=False, repr=False)
    """Thousandths of a core at full size."""
    memory_bytes: int = field(init=False, compare=False, repr=False)
    """Bytes of memory at full size."""
    alone: bool = field(init=False, compare=False, repr=False)
    """Whether the pool's free room alone decides about it."""
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        groups, rules = self.groups, self.rules
        milli = [group.count * (group.share_milli or group.accelerators * 1000) for group in groups]
        values = {
            "count": sum(group.count for group in groups),
            "accelerators": sum(group.count * group.accelerators for group in groups),
            "accelerator_milli": sum(milli),
            "cpu_milli": sum(group.count * group.cpu_milli for group in groups),
            "memory_bytes": sum(group.count * group.memory_bytes for group in groups),
            "alone": not self.data and (rules is None or not (rules.near or rules.apart)),
            "_hash": hash((groups, self.least, self.preferred, self.required, rules, self.data, self.unit)),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self._hash

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
    _check_levels(spec)
    _check_bounds(spec)
    least, counts = _sizes(spec)
    groups = tuple(
        _group(number, group.name, count, group.resources, one_per_node=group.one_per_node)
        for number, (group, count) in enumerate(zip(spec.tasks, counts, strict=True))
    )
    return _one(
        groups,
        least,
        spec.topology.preferred,
        spec.topology.required,
        _rules(spec.placement),
        tuple(spec.data),
        1 if spec.gang is None else spec.gang.unit,
    )


@lru_cache(maxsize=4096)
def _one(
    groups: tuple[TaskDemand, ...],
    least: int,
    preferred: str | None,
    required: str | None,
    rules: Rules | None,
    data: tuple[str, ...],
    unit: int,
) -> Demand:
    """One object for equal demands: they are compared often, and by identity that costs nothing."""
    return Demand(groups, least, preferred, required, rules, data, unit)


def _group(number: int, name: str, count: int, needs: Resources, *, one_per_node: bool) -> TaskDemand:
    where = f"tasks.{number}.resources"
    share, size = needs.accelerator_share, needs.accelerator_memory_bytes
    if share is not None and size is not None:
        raise BadInput(
            "a part is asked for by share or by memory, not by both",
            field=f"{where}.accelerator_share",
            do="leave one of accelerator_share and accelerator_memory_bytes out",
        )
    if (share is not None or size is not None) and needs.accelerators != 1:
        raise BadInput(
            f"a part is of 1 accelerator, not of {needs.accelerators}",
            field=f"{where}.accelerators",
            do="set it to 1, or ask for whole accelerators",
        )
    milli = 0 if share is None else round(share * 1000)
    if share is not None and milli < 1:
        raise BadInput(
            "is below a thousandth", field=f"{where}.accelerator_share", do="ask for 0.001 or more"
        )
    if needs.accelerator_model is not None and needs.accelerator_models:
        raise BadInput(
            "one model and a list of models contradict each other",
            field=f"{where}.accelerator_models",
            do="leave accelerator_model out",
        )
    return TaskDemand(
        task=name,
        count=count,
        cpu_milli=max(round(needs.cpu_cores * 1000), 1),
        memory_bytes=needs.memory_bytes,
        accelerators=needs.accelerators,
        model=needs.accelerator_model,
        one_per_node=one_per_node,
        share_milli=0 if milli == 1000 else milli,
        share_bytes=size or 0,
        models=tuple(dict.fromkeys(needs.accelerator_models)),
    )


def _rules(rules: PlacementRules | None) -> Rules | None:
    if rules is None:
        return None
    return Rules(_relations(rules.near), _relations(rules.apart), rules.spread_level, rules.most_per_domain)


def _relations(parts: Sequence[RelationPart]) -> tuple[Relation, ...]:
    return tuple(Relation(tuple(sorted(part.labels.items())), part.level, part.required) for part in parts)


def _check_levels(spec: JobSpec) -> None:
    named = [(f"topology.{name}", getattr(spec.topology, name)) for name in ("preferred", "required")]
    if spec.placement is not None:
        rules = spec.placement
        named.append(("placement.spread_level", rules.spread_level))
        named += [(f"placement.near.{n}.level", item.level) for n, item in enumerate(rules.near)]
        named += [(f"placement.apart.{n}.level", item.level) for n, item in enumerate(rules.apart)]
        if rules.most_per_domain is not None and rules.spread_level is None:
            raise BadInput(
                "says nothing without a level",
                field="placement.spread_level",
                do=f"name one of {', '.join(LEVELS)}",
            )
    for where, level in named:
        if level is not None and level not in LEVELS:
            raise BadInput(f"{level!r} is no level", field=where, do=f"use one of {', '.join(LEVELS)}")


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
            ("resources.accelerator_memory_bytes", group.resources.accelerator_memory_bytes or 0, MOST_BYTES),
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
