"""Why a job waits: which limit, how much it needs, how much is free, who holds it, and until when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .demand import Demand, TaskDemand
from .placement import Room, allowed, capacity, domains, place
from .pool import WHOLE, Bools, Ints, Pool
from .refusal import Refusal
from .world import Job, World, amount_of

MOST_HOLDERS = 5

AMOUNTS = frozenset({"room", "nodes", "accelerators", "cpu cores", "bytes of memory", "node shape"})
"""Limits of the pool's free room, whose amounts change from moment to moment."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds what another one waits for; `until` by its time limit, if it has one."""

    job: str
    tenant: str
    amount: float
    unit: str
    until: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer; `holders` are the largest, `start_by` is known where time limits tell.

    `promised_at` is the start that was promised, `promise` why it was moved, `estimated_at` the start
    as it is planned now.
    """

    refusal: Refusal | None
    holders: tuple[Holder, ...] = ()
    start_by: float | None = None
    position: int | None = None
    promised_at: float | None = None
    promise: str = ""
    estimated_at: float | None = None


def misfit(world: World, demand: Demand, usable: Bools | None = None) -> Refusal:
    """Why a demand has no place now on the nodes that it may use, for one that `place` refused."""
    pool = world.pool
    never = impossible(world, demand)
    if never is not None:
        return never
    room = Room.of(pool, usable)
    if not room.usable.any():
        if pool.usable.any():
            return Refusal("placement rules", "no node is left by its rules of placement")
        return Refusal(
            "nodes",
            "no node is ready: {of}",
            needed=demand.count,
            unit="nodes",
            of=_absent(pool),
        )
    for group in demand.groups:
        refusal = _short(pool, room, group, demand)
        if refusal is not None:
            return refusal
    return _fragmented(pool, room, demand)


def impossible(world: World, demand: Demand) -> Refusal | None:
    """Why the demand could not fit the whole pool, all nodes alive and empty; None where it could."""
    if demand not in world.verdicts:
        world.verdicts[demand] = _verdict(world.empty, demand)
    return world.verdicts[demand]


def _verdict(empty: Pool, demand: Demand) -> Refusal | None:
    if place(empty, demand) is not None:
        return None
    room = Room.of(empty)
    for group in demand.groups:
        refusal = _single(empty, room, group) or _short(empty, room, group, demand, forever=True)
        if refusal is not None:
            return refusal
    return _fragmented(empty, room, demand, forever=True)


def _single(pool: Pool, room: Room, group: TaskDemand) -> Refusal | None:
    """Where not even one task fits any node."""
    if int(capacity(pool, room, group).max(initial=0)) > 0:
        return None
    if group.part:
        largest = int(np.where(_will_do(pool, room, group), pool.devices.memory, 0).max(initial=0))
        if group.share_bytes > largest:
            template = "a task needs {needed} {unit}, the largest accelerator has {free}"
            return _never(template, group.share_bytes, largest, _unit(group))
    elif group.accelerators:
        most = int(np.bitwise_count(allowed(pool, room, group)[room.usable]).max(initial=0))
        if most < group.accelerators:
            template = "a task needs {needed} {unit}, the largest node has {free}"
            return _never(template, group.accelerators, most, _unit(group))
    cores = int(room.cpu[room.usable].max(initial=0)) / 1000
    if cores < group.cpu_milli / 1000:
        return _never(
            "a task needs {needed} {unit}, the largest node has {free}",
            group.cpu_milli / 1000,
            cores,
            "cpu cores",
        )
    most_memory = int(room.memory[room.usable].max(initial=0))
    return _never(
        "a task needs {needed} {unit}, the largest node has {free}",
        group.memory_bytes,
        most_memory,
        "bytes of memory",
    )


def _never(template: str, needed: float, free: float, unit: str) -> Refusal:
    return Refusal("node size", template, needed=needed, free=free, unit=unit, forever=True)


def _short(
    pool: Pool, room: Room, group: TaskDemand, demand: Demand, *, forever: bool = False
) -> Refusal | None:
    """Where one resource alone is too little for a group, summed over the nodes that may be used."""
    count = demand.least if len(demand.groups) == 1 else group.count
    nodes = int(room.usable.sum())
    has = "the pool has" if forever else "free are"
    if group.one_per_node and nodes < count:
        template = "needs {needed} {unit}, " + has + " {free}"
        return Refusal("nodes", template, count, nodes, "nodes", forever=forever)
    amounts = (
        ("accelerators", *_accelerators(pool, room, group)),
        ("cpu cores", group.cpu_milli / 1000, int(np.maximum(room.cpu[room.usable], 0).sum()) / 1000),
        ("bytes of memory", group.memory_bytes, int(np.maximum(room.memory[room.usable], 0).sum())),
    )
    for unit, each, free in amounts:
        if each * count > free:
            name = _unit(group) if unit == "accelerators" else unit
            template = "needs {needed} {unit}, " + has + " {free}"
            return Refusal(unit, template, each * count, free, name, forever=forever)
    return None


def _unit(group: TaskDemand) -> str:
    """What a group counts its accelerators in."""
    if group.share_bytes:
        return "bytes of accelerator memory"
    return " ".join([*([" or ".join(group.wanted)] if group.wanted else []), "accelerators"])


def _accelerators(pool: Pool, room: Room, group: TaskDemand) -> tuple[float, float]:
    """What each task needs, and what is free on the nodes that may be used."""
    if not group.part:
        return group.accelerators, int(np.bitwise_count(allowed(pool, room, group)[room.usable]).sum())
    books, mask = room.shared(pool), _will_do(pool, room, group)
    if group.share_bytes:
        return group.share_bytes, int(np.where(mask, books.size, 0).sum())
    return group.share_milli / WHOLE, int(np.where(mask, books.milli, 0).sum()) / WHOLE


def _will_do(pool: Pool, room: Room, group: TaskDemand) -> Bools:
    """Node × place: accelerators of the right models that are free or shared, on nodes that may be used."""
    bits = (room.bits | room.shared(pool).shared) & pool.bits_of_any(group.wanted)
    places = np.arange(pool.devices.memory.shape[1], dtype=np.uint64)
    mask: Bools = (bits[:, None] >> places & np.uint64(1)).astype(np.bool_) & room.usable[:, None]
    return mask


def _fragmented(pool: Pool, room: Room, demand: Demand, *, forever: bool = False) -> Refusal:
    """Enough in sum, not in one piece: on too few nodes, or not under one switch."""
    group = demand.groups[0]
    count = demand.least if len(demand.groups) == 1 else group.count
    caps = capacity(pool, room, group)
    fitting = int(caps.sum())
    if fitting < count:
        return Refusal(
            "node shape",
            "in one piece there is room for {free} of {needed} {unit}",
            count,
            fitting,
            "tasks",
            forever=forever,
        )
    level = demand.required or "site"
    sums = np.bincount(domains(pool, level), weights=caps)
    return Refusal(
        f"topology {level}",
        "under one {of} there is room for {free} of {needed} {unit}",
        demand.least,
        int(sums.max(initial=0)),
        "tasks",
        of=level,
        forever=forever,
    )


def _absent(pool: Pool) -> str:
    down, cordoned, spare = int((~pool.up).sum()), int(pool.cordoned.sum()), int(pool.spare.sum())
    return f"{down} down, {cordoned} cordoned, {spare} spare"


def explain(world: World, job: Job, refusal: Refusal | None, now: float) -> Explanation:
    """The refusal in the amounts of this moment, who holds what is missing, and when the job will start."""
    from .forecast import estimate

    position = _position(world, job)
    if refusal is not None and refusal.limit in AMOUNTS and not refusal.forever:
        refusal = misfit(world, job.demand)
    planned = estimate(world, job, refusal, now)
    if refusal is None or refusal.forever:
        return Explanation(refusal, (), None, position, job.promised_at, job.promise, planned)
    in_queue = refusal.limit == "queue cap"
    holders = []
    for other in world.holders():
        if in_queue and refusal.of not in world.lineage(other.queue):
            continue
        amount, unit = _held(other, refusal.unit)
        if amount:
            until = (
                None if other.time_s is None or other.started_at is None else other.started_at + other.time_s
            )
            holders.append(Holder(other.id, other.tenant, amount, unit, until))
    start_by = _start_by(holders, refusal, now)
    holders.sort(key=lambda holder: (-holder.amount, holder.job))
    largest = tuple(holders[:MOST_HOLDERS])
    return Explanation(refusal, largest, start_by, position, job.promised_at, job.promise, planned)


def _position(world: World, job: Job) -> int:
    """How many waiting jobs of the queue were submitted before, or have a higher priority."""
    mine = (-job.priority, job.submitted_at, job.id)
    return sum(
        1
        for other in world.pending()
        if other.queue == job.queue and (-other.priority, other.submitted_at, other.id) < mine
    )


def _held(job: Job, unit: str) -> tuple[float, str]:
    if job.placement is None:
        return 0, unit
    held = amount_of(job.placement)
    if unit.endswith("accelerators"):
        return held.accelerators, "accelerators"
    if unit == "cpu cores":
        return held.cpu_milli / 1000, unit
    if unit == "bytes of memory":
        return held.memory_bytes, unit
    return len(set(job.placement.nodes.tolist())), "nodes"


def _start_by(holders: list[Holder], refusal: Refusal, now: float) -> float | None:
    """When enough ends by its time limit; None where that cannot be told."""
    missing = refusal.needed - refusal.free
    for holder in sorted(
        (holder for holder in holders if holder.until is not None), key=lambda holder: holder.until or 0
    ):
        missing -= holder.amount
        if missing <= 0:
            return max(holder.until or now, now)
    return None


def free_by_leaf(pool: Pool) -> Ints:
    """Free accelerators on usable nodes of each leaf."""
    counts = np.where(pool.usable, np.bitwise_count(pool.free_bits), 0)
    return np.bincount(pool.leaf, weights=counts, minlength=len(pool.leaf_names)).astype(np.int64)
