"""Queues: a tree of who is sure to get what, who may borrow, and who never exceeds what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from l2_aistation._kit.problems import BadInput

from .amount import DIMENSIONS
from .demand import LEVELS

DEEPEST = 8
"""Levels that a tree of queues may have."""


@dataclass(frozen=True, slots=True)
class Cells:
    """A guarantee in units of the topology: `count` whole domains of a level, of one model if named.

    A count of accelerators can be kept in shreds; a cell is one piece (HiveD, OSDI 2020).
    """

    level: str
    count: int
    model: str | None = None


@dataclass(slots=True)
class Queue:
    """A queue and its limits; what it holds counts with its children's.

    A guarantee comes back when it is asked for, also by evicting borrowers; None as a cap leaves a
    resource open.  `min_run_s` protects its running jobs for that long, `preemptible` False for ever.
    User limits hold for each user of the queue.  `unlimited` dimensions stay out of its share.
    """

    name: str
    guarantee_accelerators: int = 0
    guarantee_cpu_cores: float = 0.0
    cap_accelerators: int | None = None
    cap_cpu_cores: float | None = None
    weight: float = 1.0
    version: int = 1
    parent: str | None = None
    guarantee_models: dict[str, int] = field(default_factory=dict)
    cap_models: dict[str, int] = field(default_factory=dict)
    cells: tuple[Cells, ...] = ()
    user_limit_accelerators: int | None = None
    user_limit_jobs: int | None = None
    min_run_s: float = 0.0
    preemptible: bool = True
    unlimited: tuple[str, ...] = ()

    @property
    def guarantees(self) -> bool:
        """Whether it guarantees anything but cells."""
        return bool(self.guarantee_accelerators or self.guarantee_cpu_cores or self.guarantee_models)

    def as_record(self) -> dict[str, Any]:
        """The queue as JSON."""
        return {
            **asdict(self),
            "cells": [asdict(item) for item in self.cells],
            "unlimited": list(self.unlimited),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Queue:
        """A queue from its JSON; names that are not known are left alone."""
        known = {item.name for item in fields(cls)}
        values = {name: value for name, value in record.items() if name in known}
        values["cells"] = tuple(Cells(**item) for item in values.get("cells") or ())
        values["unlimited"] = tuple(values.get("unlimited") or ())
        return cls(**values)


class Tree(dict[str, Queue]):
    """Queues by name, and what each has from those above it, worked out once for each change."""

    def __init__(self, queues: Mapping[str, Queue] | Iterable[tuple[str, Queue]] = ()) -> None:
        super().__init__(queues)
        self.lines: dict[str, tuple[str, ...]] = {}
        self.leasts: dict[str, float] = {}
        self.consents: dict[str, bool] = {}
        self.celled = any(queue.cells for queue in self.values())
        """Whether any queue is guaranteed cells."""

    def __setitem__(self, name: str, queue: Queue) -> None:
        super().__setitem__(name, queue)
        self._changed()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._changed()

    def update(self, others: Any = (), /, **more: Queue) -> None:
        """Puts others in."""
        super().update(others, **more)
        self._changed()

    def clear(self) -> None:
        """Takes all out."""
        super().clear()
        self._changed()

    def pop(self, name: str, *default: Any) -> Any:
        """Takes one out."""
        found = super().pop(name, *default)
        self._changed()
        return found

    def _changed(self) -> None:
        self.lines.clear()
        self.leasts.clear()
        self.consents.clear()
        self.celled = any(queue.cells for queue in self.values())

    def setdefault(self, name: str, queue: Queue | None = None) -> Queue:
        """The queue of that name, put in where there is none."""
        if name not in self:
            self[name] = Queue(name) if queue is None else queue
        return self[name]

    def line(self, name: str) -> tuple[str, ...]:
        """A queue and those above it, up to the root."""
        known = self.lines.get(name)
        if known is None:
            known = self.lines[name] = tuple(lineage(self, name))
        return known

    def min_run_s(self, name: str) -> float:
        """How long jobs of a queue run before they may be asked to leave."""
        known = self.leasts.get(name)
        if known is None:
            spans = [self[above].min_run_s for above in self.line(name) if above in self]
            known = self.leasts[name] = max(spans, default=0.0)
        return known

    def preemptible(self, name: str) -> bool:
        """Whether jobs of a queue may be asked to leave at all."""
        known = self.consents.get(name)
        if known is None:
            line = self.line(name)
            known = self.consents[name] = all(self[above].preemptible for above in line if above in self)
        return known


def lineage(queues: Mapping[str, Queue], name: str) -> Iterator[str]:
    """A queue and those above it, up to the root."""
    steps = 0
    above: str | None = name
    while above is not None and steps < DEEPEST:
        yield above
        queue = queues.get(above)
        above = None if queue is None else queue.parent
        steps += 1


def check_queue(queues: Mapping[str, Queue], queue: Queue) -> None:
    """`BadInput` where a queue does not fit into the tree, or contradicts itself."""
    _check_parent(queues, queue)
    _check_values(queue)
    _check_cells(queues, queue)
    for field_name, mine in (
        ("guarantee_accelerators", queue.guarantee_accelerators),
        ("guarantee_cpu_cores", queue.guarantee_cpu_cores),
    ):
        _check_sums(queues, queue, field_name, mine)


def _check_parent(queues: Mapping[str, Queue], queue: Queue) -> None:
    if queue.parent is None:
        return
    if queue.parent not in queues:
        raise BadInput(f"there is no queue {queue.parent!r}", field="parent", do="make the parent first")
    tree = {**queues, queue.name: queue}
    above: str | None = queue.parent
    steps = 1
    while above is not None:
        steps += 1
        if above == queue.name:
            raise BadInput(f"{queue.name} would be its own ancestor", field="parent")
        if steps > DEEPEST:
            raise BadInput(f"the tree would have more than {DEEPEST} levels", field="parent")
        above = tree[above].parent if above in tree else None


def _check_values(queue: Queue) -> None:
    if not queue.weight > 0:
        raise BadInput("must be above 0", field="weight")
    if not queue.min_run_s >= 0:
        raise BadInput("must not be negative", field="min_run_s")
    for name in queue.unlimited:
        if name not in DIMENSIONS:
            raise BadInput(
                f"{name!r} is no resource", field="unlimited", do=f"use some of {', '.join(DIMENSIONS)}"
            )
    for number, cell in enumerate(queue.cells):
        if cell.level not in LEVELS:
            raise BadInput(
                f"{cell.level!r} is no level",
                field=f"cells.{number}.level",
                do=f"use one of {', '.join(LEVELS)}",
            )
        if cell.count < 1:
            raise BadInput("must be 1 at least", field=f"cells.{number}.count")
    _check_amounts(queue)


def _check_cells(queues: Mapping[str, Queue], queue: Queue) -> None:
    """Cells are guaranteed on one level of the tree: a queue's are its children's already."""
    if not queue.cells:
        return
    tree = {**queues, queue.name: queue}
    for other in queues.values():
        if other.cells and other.name != queue.name:
            related = queue.name in lineage(tree, other.name) or other.name in lineage(tree, queue.name)
            if related:
                raise BadInput(
                    f"{other.name}, which is above or below it, has cells",
                    field="cells",
                    do="guarantee cells to one of them",
                )


def _check_amounts(queue: Queue) -> None:
    pairs = [
        ("guarantee_accelerators", queue.guarantee_accelerators, queue.cap_accelerators),
        ("guarantee_cpu_cores", queue.guarantee_cpu_cores, queue.cap_cpu_cores),
        ("user_limit_accelerators", 0, queue.user_limit_accelerators),
        ("user_limit_jobs", 0, queue.user_limit_jobs),
    ]
    pairs += [
        (f"guarantee_models.{model}", sure, queue.cap_models.get(model))
        for model, sure in queue.guarantee_models.items()
    ]
    pairs += [(f"cap_models.{model}", 0, cap) for model, cap in queue.cap_models.items()]
    for name, sure, cap in pairs:
        if sure < 0 or (cap is not None and cap < 0):
            raise BadInput("must not be negative", field=name)
        if cap is not None and sure > cap:
            raise BadInput(f"a guarantee of {sure:g} is above the cap of {cap:g}", field=name)


def _check_sums(queues: Mapping[str, Queue], queue: Queue, field_name: str, mine: float) -> None:
    """A parent that guarantees something guarantees at least what its children do."""
    others = [item for item in queues.values() if item.name != queue.name]
    if queue.parent is not None:
        sure = getattr(queues[queue.parent], field_name)
        siblings = sum(getattr(item, field_name) for item in others if item.parent == queue.parent)
        if mine and siblings + mine > sure:
            raise BadInput(
                f"its parent {queue.parent} guarantees {sure:g}, its siblings take {siblings:g} of that",
                field=field_name,
                do="raise the parent's guarantee first",
            )
    children = sum(getattr(item, field_name) for item in others if item.parent == queue.name)
    if children > mine:
        raise BadInput(f"its children are guaranteed {children:g}", field=field_name, do="lower theirs first")
