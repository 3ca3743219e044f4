"""Queues: a cap is never exceeded, a guarantee comes back when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from l2_aistation.core.amount import Amount
from l2_aistation.core.demand import Demand
from l2_aistation.core.guarantee import need_of, over, within
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.world import Job, Queue, World

from . import Request, Right, Rule

NOTHING = Amount()


class QueueQuota(Rule):
    """Caps along the tree; and who is within its guarantee takes it back from those who borrow."""

    name = "quota"
    asks_in = ("reclaim",)

    def limits(self, world: World, queue: str) -> bool:
        """Where it or one above it has a cap."""
        above = [world.queues[name] for name in world.lineage(queue) if name in world.queues]
        return any(one.cap_accelerators is not None or one.cap_cpu_cores is not None for one in above)

    def refuses(self, world: World, job: Job, demand: Demand) -> Refusal | None:
        """Where a cap of the queue, or of one above it, would be exceeded."""
        for name in world.lineage(job.queue):
            queue = world.queues.get(name)
            if queue is not None:
                refusal = _above_cap(queue, world.by_queue.get(name, NOTHING), demand)
                if refusal is not None:
                    return refusal
        return None

    def rights(self, world: World, request: Request) -> Right | None:
        """Borrowers of other queues, while the job's queue stays within its guarantee.

        Those outside come first: of the queues around the job, the highest that is within its
        guarantee takes back from its siblings before anybody inside it has to make way.
        """
        if request.action != "reclaim":
            return None
        line, need = world.lineage(request.job.queue), need_of(request.demand)
        sure = [name for name in line if _within(world, name, need)]
        right: Right | None = None
        for depth in range(len(sure)):
            books = Books(world, line, frozenset(sure[depth:]))
            right = Right(books.borrowers(), books.allows, past=frozenset({self.name}), otherwise=right)
        return right

    def protects(self, world: World, victim: Job, claimant: Job, now: float) -> bool:  # noqa: ARG002
        """What a queue holds within its guarantee is safe from other queues."""
        if victim.queue == claimant.queue:
            return False
        mine, held = world.lineage(claimant.queue), world.amount(victim)
        for name in world.lineage(victim.queue):
            if name in mine:
                return False
            queue = world.queues.get(name)
            if queue is not None and not over(queue, world.by_queue.get(name, NOTHING), held):
                return True
        return False


def _within(world: World, name: str, need: Amount) -> bool:
    queue = world.queues.get(name)
    if queue is None or not queue.guarantees:
        return False
    return within(queue, world.by_queue.get(name, NOTHING), need)


class Books:
    """Who borrows, seen from a claimant whose queues `sure` are within their guarantees."""

    def __init__(self, world: World, line: tuple[str, ...], sure: frozenset[str]) -> None:
        self.world = world
        self.line = line
        self.sure = sure
        self.paths: dict[str, list[str]] = {}
        leaving = world.leaving()
        self.gone: dict[str, Amount] = {}
        for name in leaving:
            job = world.jobs.get(name)
            if job is not None and job.placement is not None:
                for above in world.lineage(job.queue):
                    self.gone.setdefault(above, Amount()).add(world.amount(job))

    def path(self, queue: str) -> list[str]:
        """The queues above a victim that have to be over their guarantee; empty: it is not for us.

        They are those below the lowest queue that both share; the claimant's own one at that level
        has to be within its guarantee.
        """
        if queue not in self.paths:
            theirs = list(self.world.lineage(queue))
            shared = next((name for name in theirs if name in self.line), None)
            mine = self.line[: self.line.index(shared)] if shared else self.line
            other = theirs[: theirs.index(shared)] if shared else theirs
            self.paths[queue] = other if mine and other and mine[-1] in self.sure else []
        return self.paths[queue]

    def borrowers(self) -> Iterator[Job]:
        """The jobs of queues that are over their guarantees."""
        for queue, jobs in self.world.by_leaf.items():
            path = self.path(queue) if jobs else []
            if not path:
                continue
            books = [(self._queue(name), self._used(name)) for name in path]
            for job in jobs.values():
                held = self.world.amount(job)
                if all(over(above, used, held) for above, used in books):
                    yield job

    def _queue(self, name: str) -> Queue:
        return self.world.queues.get(name) or Queue(name)

    def _used(self, name: str) -> Amount:
        used = self.world.by_queue.get(name, NOTHING)
        if name not in self.gone:
            return used
        left = used.copy()
        left.add(self.gone[name], -1)
        return left

    def allows(self, victims: Sequence[Job]) -> bool:
        """Whether each of them can leave, in some order, at a time when its queues still borrow.

        The largest of a queue goes last: then it breaks the guarantee only by what it is in one piece.
        """
        by_queue: dict[str, list[Amount]] = {}
        for victim in victims:
            path = self.path(victim.queue)
            if not path:
                return False
            for name in path:
                by_queue.setdefault(name, []).append(self.world.amount(victim))
        return all(self._can_spare(name, amounts) for name, amounts in by_queue.items())

    def _can_spare(self, name: str, amounts: list[Amount]) -> bool:
        queue, left = self._queue(name), self._used(name).copy()
        amounts.sort(key=lambda amount: (amount.accelerator_milli, amount.cpu_milli))
        for amount in amounts:
            if not over(queue, left, amount):
                return False
            left.add(amount, -1)
        return True


def _above_cap(queue: Queue, used: Amount, demand: Demand) -> Refusal | None:
    checks = (
        (
            "accelerators",
            queue.cap_accelerators,
            used.accelerator_milli / 1000,
            demand.accelerator_milli / 1000,
        ),
        ("cpu cores", queue.cap_cpu_cores, used.cpu_milli / 1000, demand.cpu_milli / 1000),
    )
    for unit, cap, in_use, needed in checks:
        if cap is not None and needed and in_use + needed > cap:
            return Refusal(
                "queue cap",
                "queue {of} has room for {free} {unit} under its cap, the job needs {needed}",
                needed=needed,
                free=max(cap - in_use, 0),
                unit=unit,
                of=queue.name,
                forever=needed > cap,
            )
    return None
