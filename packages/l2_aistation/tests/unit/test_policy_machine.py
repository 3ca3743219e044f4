"""The life of a small cluster at random: whatever happens in whatever order, what must hold holds.

Submissions, ends, failures, cancellations, checkpoints, changes of quotas and cells, lost and returned
nodes, slow and quick stops of evicted jobs, restarts at any point; a cycle after each, every decision
in a journal that is replayed at the end.
"""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.policy import default_policies
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool
from l2_aistation.core.rehearsal import Rehearsal
from l2_aistation.core.replay import Recorder, replay, restore, snapshot
from l2_aistation.core.statement import Booking, ClaimMade, Entry, Eviction
from l2_aistation.core.states import JobState
from l2_aistation.core.world import Cells, Job, Queue, World

SOAK = os.environ.get("OGAI_SOAK") == "1"
QUEUES = ("x", "y", "b", "c")
CARDS = tuple(AcceleratorFacts(number, "nvidia", "H100" if number < 3 else "A100") for number in range(4))
NODES = 4


def first_world() -> World:
    pool = Pool(
        NodeFacts(f"n{number}", 16, 0, CARDS, f"l{number // 2}", f"s{number // 4}") for number in range(NODES)
    )
    pool.up[:] = True
    world = World(pool)
    world.put_queue(Queue("lab", guarantee_accelerators=12))
    world.put_queue(Queue("x", parent="lab", guarantee_accelerators=8, min_run_s=30))
    world.put_queue(Queue("y", parent="lab", guarantee_accelerators=4))
    world.put_queue(Queue("b", guarantee_accelerators=4, cap_accelerators=16, user_limit_jobs=4))
    world.put_queue(Queue("c", cap_models={"A100": 3}))
    return world


class Life(RuleBasedStateMachine):
    """One cluster."""

    @initialize(sizes=st.lists(st.sampled_from([1, 1, 2, 4]), min_size=4, max_size=12))
    def begin(self, sizes: list[int]) -> None:
        """Borrowers have most of it."""
        self.play = Rehearsal(first_world())
        self.play.now = 1000.0
        self.number = 0
        self.pairs: set[tuple[str, str]] = set()
        self._record_from_here()
        for place, size in enumerate(sizes):
            self._new("ccby"[place % 4], Demand((TaskDemand("w", 1, 500, 0, size),), 1))

    def _record_from_here(self) -> None:
        self.first = json.loads(json.dumps(snapshot(self.play.world)))
        self.play.world.unheard.clear()
        self.recorder = Recorder(self.play.world)
        self.entries: list[dict[str, Any]] = []

    @property
    def world(self) -> World:
        return self.play.world

    # -- what happens ------------------------------------------------------------------------------

    @rule(
        queue=st.sampled_from(QUEUES),
        tasks=st.sampled_from([1, 1, 2, 3, 4]),
        each=st.sampled_from([1, 2, 3, 4]),
        priority=st.integers(0, 2),
        owner=st.sampled_from(["ann", "bob"]),
        preemptible=st.sampled_from([True, True, True, False]),
        required=st.sampled_from([None, None, "leaf"]),
        model=st.sampled_from([None, None, "H100", "A100"]),
        least=st.sampled_from([None, 1]),
        limit=st.sampled_from([None, 100.0]),
    )
    def submit(
        self,
        queue: str,
        tasks: int,
        each: int,
        priority: int,
        owner: str,
        preemptible: bool,
        required: str | None,
        model: str | None,
        least: int | None,
        limit: float | None,
    ) -> None:
        demand = Demand((TaskDemand("w", tasks, 500, 0, each, model),), least or tasks, "leaf", required)
        self._new(queue, demand, priority=priority, owner=owner, preemptible=preemptible, time_s=limit)

    def _new(self, queue: str, demand: Demand, **options: Any) -> None:
        self.number += 1
        values = {"priority": 0, "owner": "ann", **options}
        self.play.submit(
            Job(
                f"j{self.number}", values["owner"], queue, submitted_at=self.play.now, demand=demand, **values
            )
        )
        self.play.now += 1
        # As the service does it: a cycle for the new job alone while nothing has become free.
        self._cycle(None if self.number % 2 else frozenset({f"j{self.number}"}))

    @precondition(lambda self: self.world.jobs)
    @rule(
        which=st.integers(0, 99),
        how=st.sampled_from([JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED]),
    )
    def end(self, which: int, how: JobState) -> None:
        names = sorted(self.world.jobs)
        self.play.end(names[which % len(names)], how)

    @rule(which=st.integers(0, 9))
    def stop(self, which: int) -> None:
        stopping = [job.id for job in self.world.holders() if job.state is JobState.STOPPING]
        if stopping:
            self.play.stop(stopping[which % len(stopping)])

    @rule()
    def stop_all(self) -> None:
        self.play.stop()

    @rule(node=st.integers(0, NODES - 1))
    def lose(self, node: int) -> None:
        self.play.lose(f"n{node}")

    @rule()
    def restore_all(self) -> None:
        for node in range(NODES):
            self.play.restore(f"n{node}")

    @precondition(lambda self: self.world.holding)
    @rule(which=st.integers(0, 99))
    def checkpoint(self, which: int) -> None:
        names = sorted(self.world.holding)
        self.play.checkpoint(names[which % len(names)])

    @rule(cap=st.sampled_from([None, 0, 4, 16]), sure=st.integers(0, 8))
    def change_b(self, cap: int | None, sure: int) -> None:
        sure = sure if cap is None else min(sure, cap)
        self.play.put_queue(Queue("b", guarantee_accelerators=sure, cap_accelerators=cap, user_limit_jobs=4))

    @rule(cells=st.sampled_from([(), (Cells("leaf", 1),), (Cells("node", 2),)]))
    def change_cells(self, cells: tuple[Cells, ...]) -> None:
        self.play.put_queue(Queue("y", parent="lab", guarantee_accelerators=4, cells=cells))

    @rule(seconds=st.sampled_from([0.0, 1.0, 40.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.play.now += seconds
        self._cycle()

    @rule()
    def restart(self) -> None:
        """From what was written down; nothing is lost, nothing doubled."""
        before = self.play.world
        written = json.loads(json.dumps(snapshot(before)))
        self._check_replay()
        self.play.world = restore(written)
        assert self.world.same_books(before)
        assert self.world.waiting.same_as(before.pending())
        assert self.world.claims.keys() == before.claims.keys()
        assert self.world.evicted == before.evicted
        self._record_from_here()

    # -- what must hold -------------------------------------------------------------------------------

    def _cycle(self, only: frozenset[str] | None = None) -> tuple[Entry, ...]:
        told = self.recorder.begin()
        outcome = self.play.cycle(only, self._note_entry(told))
        evictions = [entry for entry in outcome.entries if isinstance(entry, Eviction)]
        for entry in evictions:
            pair = entry.claimant.id, entry.job.id
            assert pair not in self.pairs, "the same claimant evicted the same job twice"
            self.pairs.add(pair)
            assert entry.job.preemptible
            if entry.action == "preempt":
                assert entry.job.queue == entry.claimant.queue
                assert entry.job.priority <= entry.claimant.priority
        self._no_cycle()
        self._quotas(outcome.entries)
        return outcome.entries

    def _note_entry(self, told: Any) -> Any:
        def ended(session: Any, entries: Any) -> None:
            self.entries.append(json.loads(json.dumps(self.recorder.end(told, session, entries))))

        return ended

    def _no_cycle(self) -> None:
        """Among jobs that live, evictions never lead back to where they began."""
        alive = {pair for pair in self.pairs if pair[0] in self.world.jobs and pair[1] in self.world.jobs}
        while alive:
            victims = {victim for _, victim in alive}
            rest = {pair for pair in alive if pair[0] in victims}
            assert rest != alive, f"a cycle of evictions in {sorted(alive)}"
            alive = rest

    def _quotas(self, entries: tuple[Entry, ...]) -> None:
        """Whoever started or was given a claim is within every cap and limit, those who leave left out."""
        world = self.world
        for entry in entries:
            if not (isinstance(entry, ClaimMade) or (isinstance(entry, Booking) and entry.taken)):
                continue
            for name in world.lineage(entry.job.queue):
                queue = world.queues[name]
                inside = [
                    job
                    for job in world.holders()
                    if name in world.lineage(job.queue) and job.state is not JobState.STOPPING
                ]
                held = sum(world.amount(job).accelerator_milli for job in inside)
                if queue.cap_accelerators is not None and isinstance(entry, Booking):
                    assert held <= queue.cap_accelerators * 1000
                for model, cap in queue.cap_models.items():
                    if isinstance(entry, Booking):
                        assert sum(world.amount(job).models.get(model, 0) for job in inside) <= cap * 1000
                own = [
                    job for job in inside if job.owner == entry.job.owner and job.tenant == entry.job.tenant
                ]
                if queue.user_limit_jobs is not None:
                    assert len(own) <= queue.user_limit_jobs

    @invariant()
    def books(self) -> None:
        """No accelerator twice (a rebuild would refuse), every gang whole, all sums as from scratch."""
        world = getattr(self, "play", None) and self.world
        if not world:
            return
        assert world.same_books(world.rebuilt())
        assert world.ledger.same_as(world.holders())
        assert world.waiting.same_as(world.pending())
        for job in world.jobs.values():
            if job.placement is not None:
                assert job.demand.least <= len(job.placement) <= job.demand.count
                assert job.state in (JobState.RUNNING, JobState.STOPPING)
            else:
                assert job.state is JobState.QUEUED
        for name, claim in world.claims.items():
            assert name in world.jobs
            assert world.jobs[name].demand.least <= len(claim.placement) <= world.jobs[name].demand.count

    def _check_replay(self) -> None:
        assert replay(restore(self.first), self.entries, default_policies()) == []

    def teardown(self) -> None:
        """Left alone it comes to rest, and the journal gives the same decisions again."""
        if not hasattr(self, "play"):
            return
        quiet = 0
        for _ in range(200):
            self.play.stop()
            self.play.now += 1
            entries = self._cycle()
            self.books()
            quiet = 0 if entries else quiet + 1
            if quiet > 2:
                break
        assert quiet > 2, "evictions do not come to rest"
        self._check_replay()


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=400 if SOAK else 20,
    stateful_step_count=60 if SOAK else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
