"""The event loop: arrivals, ends, evictions and quota changes in virtual time, a cycle after each moment.

All that happens at one moment is done first, then one cycle decides, as a pass of the service does:
over all waiting jobs where something became free, over the new ones alone where nothing did.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np

from l2_aistation.core.cycle import run
from l2_aistation.core.explain import impossible
from l2_aistation.core.pool import NodeFacts, Pool
from l2_aistation.core.statement import Booking, Eviction
from l2_aistation.core.states import JobState
from l2_aistation.core.world import Queue, World

from .jobs import QuotaChange, Trace, TraceJob, demand_of
from .lives import Costs, Life, SimulatedJob
from .meter import Meter
from .policies import Scheme
from .results import Result, jain
from .shares import Shares

FULL_CYCLE_EVERY_S = 600.0
"""A cycle over all waiting jobs at least so often, if anything happens at all."""

MOST_VAIN_WAKES = 1000
"""How often in a row a scheme is woken though nothing runs and nobody comes, before it is given up."""

END, STOPPED, QUOTA = 0, 1, 2
Progress = Callable[[int, int], None]


def simulate(
    trace: Trace,
    facts: Iterable[NodeFacts],
    scheme: Scheme,
    costs: Costs | None = None,
    progress: Progress | None = None,
) -> Result:
    """Runs a trace on a cluster under a scheme; `progress(done, all)` hears of ended jobs."""
    return Simulation(trace, facts, scheme, costs or Costs(), progress).run()


@dataclass(slots=True)
class Simulation:
    """One run.  `lives` are the jobs that arrived and have not ended."""

    trace: Trace
    facts: Iterable[NodeFacts]
    scheme: Scheme
    costs: Costs
    progress: Progress | None = None
    world: World = field(init=False)
    meter: Meter = field(init=False)
    shares: Shares = field(init=False)
    now: float = 0.0
    lives: dict[str, Life] = field(default_factory=dict)
    done: list[tuple[int, TraceJob, float]] = field(default_factory=list)
    """Jobs that ended: their place in the trace, and how long they took."""
    events: list[tuple[float, int, int, str]] = field(default_factory=list)
    arrived: int = 0
    waiting: int = 0
    rejected: int = 0
    evictions: int = 0
    lost_s: float = 0.0
    useful_s: float = 0.0
    cycles: int = 0
    dirty: bool = False
    barred: bool = False
    fresh: list[str] = field(default_factory=list)
    last_full: float = 0.0
    widest: int = 0
    vain_wakes: int = 0

    def __post_init__(self) -> None:
        pool = Pool(self.facts)
        pool.up[:] = True
        self.widest = max(int(np.bitwise_count(pool.all_bits).max(initial=0)), 1)
        self.now = self.trace.jobs[0].submit_s if self.trace.jobs else 0.0
        queues = {job.queue for job in self.trace.jobs} | {change.queue for change in self.trace.quotas}
        self.world = World(pool, {name: Queue(name) for name in sorted(queues)})
        self.meter = Meter(pool, self.now)
        self.shares = Shares(sorted(queues), self.meter.full, self.now)
        self.scheme.open(self.world, self.remaining)
        for number, change in enumerate(self.trace.quotas):
            self._at(change.at_s, QUOTA, str(number))

    def run(self) -> Result:
        """Until nothing can happen any more."""
        spent = time.process_time()
        while (at := self._next()) is not None:
            self.meter.advance(at, self.waiting)
            self.shares.advance(at)
            self.now = at
            self._moment()
            self._cycle()
        return self._result(time.process_time() - spent)

    def remaining(self, name: str) -> float:
        """Seconds that a job will hold its place if it starts now: the oracle of schemes that have one."""
        return self.lives[name].remaining_s(self.now, self.costs.restart_s)

    # -- time --------------------------------------------------------------------------------------

    def _at(self, when: float, kind: int, name: str, number: int = 0) -> None:
        heapq.heappush(self.events, (when, kind, number, name))

    def _next(self) -> float | None:
        times = [self.events[0][0]] if self.events else []
        if self.arrived < len(self.trace.jobs):
            times.append(self.trace.jobs[self.arrived].submit_s)
        if times:
            self.vain_wakes = 0
        elif not self.waiting or self.vain_wakes == MOST_VAIN_WAKES:
            return None
        else:
            self.vain_wakes += 1
        wake = self.scheme.wake(self.now)
        if wake is not None:
            times.append(max(wake, self.now))
        return max(min(times), self.now) if times else None

    def _moment(self) -> None:
        """All that happens now: ends and stops first, then quotas, then arrivals."""
        while self.events and self.events[0][0] <= self.now:
            _, kind, number, name = heapq.heappop(self.events)
            if kind == QUOTA:
                self._quota(self.trace.quotas[int(name)])
                continue
            life = self.lives.get(name)
            if life is None or life.starts != number:
                continue
            if kind == STOPPED:
                self._requeue(life)
            elif life.job.started_at is not None and not life.stopping:
                self._end(life)
        jobs = self.trace.jobs
        while self.arrived < len(jobs) and jobs[self.arrived].submit_s <= self.now:
            self._arrive(self.arrived)
            self.arrived += 1

    # -- what happens to jobs ------------------------------------------------------------------------

    def _arrive(self, number: int) -> None:
        entry = self.trace.jobs[number]
        demand = demand_of(entry, self.widest)
        if impossible(self.world, demand) is not None:
            self.rejected += 1
            return
        job = SimulatedJob(
            id=entry.id,
            tenant=entry.queue,
            queue=entry.queue,
            priority=entry.priority,
            submitted_at=entry.submit_s,
            demand=demand,
            time_s=entry.limit_s,
            name=entry.name,
            owner=entry.user,
            checkpoint_s=self.costs.checkpoint_s,
        )
        self.lives[job.id] = Life(number, entry, job)
        self.world.jobs[job.id] = job
        self.fresh.append(job.id)
        self.waiting += 1
        self.shares.want(job.queue, demand.accelerator_milli / 1000)
        self.scheme.queued(job)

    def _start(self, life: Life) -> None:
        job = life.job
        assert job.placement is not None
        job.overhead_s = self.costs.restart_s if life.starts else 0.0
        life.starts += 1
        self.waiting -= 1
        job.started_at = self.now
        job.state = JobState.RUNNING
        life.accelerators = job.placement.held_milli / 1000
        self.meter.take(job.id, job.placement, life.accelerators)
        self.shares.hold(job.queue, life.accelerators)
        self.scheme.started(job, self.now)
        self._at(self.now + job.overhead_s + life.left_s, END, job.id, life.starts)

    def _end(self, life: Life) -> None:
        job = life.job
        assert job.started_at is not None
        self._give(life)
        self.shares.want(job.queue, -job.demand.accelerator_milli / 1000)
        self.world.run_times.learn(job, job.ran_s + self.now - job.started_at)
        self.world.give(job)
        job.state = JobState.COMPLETED
        job.ended_at = self.now
        self.scheme.ended(job, self.now)
        self.world.forget(job.id)
        del self.lives[job.id]
        self.useful_s += life.accelerators * life.trace.duration_s
        self.lost_s += life.accelerators * job.overhead_s
        self.done.append((life.number, life.trace, self.now - life.trace.submit_s))
        self.dirty = True
        if self.progress is not None and len(self.done) % 1000 == 0:
            self.progress(len(self.done), len(self.trace.jobs))

    def _stop(self, life: Life) -> None:
        """The job is evicted: what it did since its last checkpoint is lost."""
        job = life.job
        if life.stopping or job.started_at is None:
            return
        held = self.now - job.started_at
        kept = job.worked_s(self.now) - job.lost_work_s(self.now)
        life.saved_s += kept
        self.evictions += 1
        self.lost_s += (held - kept) * life.accelerators
        if job.placement is None:  # gave its place back at once
            self._requeue(life)
            return
        life.stopping = True
        job.target = JobState.QUEUED
        job.state = JobState.STOPPING
        self._at(self.now + self.costs.stop_s, STOPPED, job.id, life.starts)

    def _requeue(self, life: Life) -> None:
        job = life.job
        assert job.started_at is not None
        self._give(life)
        if job.placement is not None:
            self.lost_s += self.costs.stop_s * life.accelerators
            self.world.give(job)
        life.stopping = False
        job.ran_s += self.now - job.started_at
        job.started_at = None
        job.target = None
        job.state = JobState.QUEUED
        self.waiting += 1
        self.dirty = True
        self.scheme.queued(job)

    def _give(self, life: Life) -> None:
        self.meter.give(life.job.id, life.accelerators)
        self.shares.hold(life.job.queue, -life.accelerators)

    def _quota(self, change: QuotaChange) -> None:
        self.world.put_queue(
            replace(self.world.queues[change.queue], guarantee_accelerators=change.accelerators)
        )
        self.shares.sure(change.queue, change.accelerators)
        self.dirty = True

    # -- decisions -------------------------------------------------------------------------------------

    def _cycle(self) -> None:
        if not self.waiting:
            self.fresh.clear()
            return
        due = self.now - self.last_full >= FULL_CYCLE_EVERY_S
        woken = not self.fresh and not self.dirty
        only = None
        if self.dirty or due or woken:
            self.last_full = self.now
        elif self.barred:
            self.fresh.clear()
            return
        else:
            only = frozenset(self.fresh)
        self.fresh.clear()
        self.dirty = False
        self.cycles += 1
        session = run(self.scheme.session(self.now, only), self.scheme.actions)
        if only is None:
            self.barred = session.barred
        for entry in session.statement.commit():
            life = self.lives[entry.job.id]
            if isinstance(entry, Eviction) or (isinstance(entry, Booking) and not entry.taken):
                self._stop(life)
            elif isinstance(entry, Booking):
                self._start(life)

    # -- the account -----------------------------------------------------------------------------------

    def _result(self, cpu_s: float) -> Result:
        meter = self.meter
        self.done.sort(key=itemgetter(0))
        jct = np.array([taken for _, _, taken in self.done], dtype=np.float64)
        duration = np.array([entry.duration_s for _, entry, _ in self.done], dtype=np.float64)
        span = meter.now - meter.start
        offered = meter.full * span or 1.0
        by_queue = _by_queue([entry.queue for _, entry, _ in self.done], jct, duration)
        rates = np.array([row["progress"] for row in by_queue.values()], dtype=np.float64)
        return Result(
            policy=self.scheme.name,
            words=self.scheme.words,
            oracle=self.scheme.oracle,
            trace=self.trace.name,
            accelerators=meter.full,
            jct_s=jct,
            wait_s=jct - duration,
            makespan_s=span,
            utilisation=meter.held_s / offered,
            allocated_share=meter.busy_held_s / (meter.full * meter.busy_s) if meter.busy_s else 1.0,
            useful_share=self.useful_s / offered,
            fairness=jain(rates),
            share_fairness=self.shares.fairness,
            guarantee_missing=self.shares.missing,
            fragmentation=meter.broken_s / meter.free_s if meter.free_s else 0.0,
            cross_leaf=meter.leaf_edges_s / meter.edges_s if meter.edges_s else 0.0,
            cross_spine=meter.spine_edges_s / meter.edges_s if meter.edges_s else 0.0,
            excess_leaves=meter.excess,
            gangs=meter.gangs,
            evictions=self.evictions,
            lost_s=self.lost_s,
            rejected=self.rejected,
            unfinished=len(self.lives),
            cycles=self.cycles,
            cpu_s=cpu_s,
            by_queue=by_queue,
            series=meter.series(),
        )


def _by_queue(queues: list[str], jct: np.ndarray, duration: np.ndarray) -> dict[str, dict[str, float]]:
    names = np.array(queues)
    rate = np.divide(duration, jct, out=np.ones_like(jct), where=jct > 0)
    found = {}
    for name in sorted(set(queues)):
        mine = names == name
        found[name] = {
            "jobs": int(mine.sum()),
            "jct_mean_h": float(jct[mine].mean()) / 3600,
            "wait_mean_h": float((jct - duration)[mine].mean()) / 3600,
            "progress": float(rate[mine].mean()),
        }
    return found
