"""A held job's way on: name the cause, look for a stand-in, decide, carry the decision out."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.diagnosis import name_cause, only_consequences
from l2_aistation.core.healing import Cause, Decision, PastAttempt, Place, Situation
from l2_aistation.core.pool import Bits, Bools, Slot, bit_places
from l2_aistation.core.recovery import decide
from l2_aistation.core.states import AttemptEvent, JobEvent
from l2_aistation.core.world import Job
from l2_aistation.ports import PowerSource

from . import cordoning
from .launch import end_commands, start_commands
from .platform import Platform
from .warming import cool

POWER_PATIENCE_S = 2.0


class Recovery:
    """Remembers, between passes, the causes named and when to ask again; both can be renewed."""

    def __init__(self, platform: Platform, power: PowerSource | None = None) -> None:
        self.platform = platform
        self.power = power
        self.asked: dict[str, Future[str | None]] = {}
        self.asker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="power")
        self.causes: dict[tuple[str, int], Cause] = {}
        self.ask_at: dict[tuple[str, int], float] = {}

    def advance(self) -> None:
        """Every held attempt one step on."""
        now = self.platform.clock()
        for name in sorted(self.platform.held):
            attempt = self.platform.attempts[name]
            if now >= self.ask_at.get((name, attempt.number), 0.0):
                self._advance(attempt, now)

    def forget(self) -> None:
        """After a reload: what is remembered is derived again."""
        self.causes.clear()
        self.ask_at.clear()

    def _advance(self, attempt: Attempt, now: float) -> None:
        job = self.platform.world.jobs[attempt.job]
        key = attempt.job, attempt.number
        if key not in self.causes:
            patience = self.platform.settings.node_lost_s + 1.0
            young = now - (attempt.fault_at or now) < patience
            if young and only_consequences(attempt.evidence()):
                self.ask_at[key] = now + 0.25
                return
            if self.power is not None and not self._power_told(attempt, now):
                self.ask_at[key] = now + 0.1
                return
            self.causes[key] = self._name(job, attempt, now)
        decision = decide(self._situation(job, attempt, self.causes[key], now))
        self.carry_out(job, attempt, self.causes[key], decision, now)

    def _power_told(self, attempt: Attempt, now: float) -> bool:
        """Adds what the power source says of lost nodes; it is given `POWER_PATIENCE_S` to answer."""
        waiting = False
        for name, lost in list(attempt.lost.items()):
            if lost.power is not None or self.power is None:
                continue
            if name not in self.asked:
                self.asked[name] = self.asker.submit(self.power.power, name)
            asked = self.asked[name]
            if asked.done():
                answer = None if asked.exception() is not None else asked.result()
                attempt.lost[name] = replace(lost, power=answer)
                self.platform.batch.touch_attempt(attempt)
            else:
                waiting = True
        if waiting and now - (attempt.held_at or now) < POWER_PATIENCE_S:
            return False
        for name in attempt.lost:
            self.asked.pop(name, None)
        return True

    def close(self) -> None:
        """Lets the asking thread go."""
        self.asker.shutdown(wait=False, cancel_futures=True)

    def _name(self, job: Job, attempt: Attempt, now: float) -> Cause:
        cause = name_cause(attempt.evidence())
        known = self.platform.store.faults(job.id)
        if not any(row["attempt"] == attempt.number for row in known):
            self.platform.batch.fault(attempt, now, cause)
            self.platform.note(
                "fault",
                job,
                label=cause.label,
                category=cause.category,
                node=cause.node,
                rank=cause.rank,
                action=cause.action,
                confidence=cause.confidence,
            )
        return cause

    def _situation(self, job: Job, attempt: Attempt, cause: Cause, now: float) -> Situation:
        pool = self.platform.world.pool
        spec = self.platform.spec(job)
        down = {node for node in attempt.nodes if not pool.up[pool.index[node]]}
        cordoned = {node for node in attempt.nodes if pool.cordoned[pool.index[node]]}
        bad = {cause.node} if cause.action in ("replace", "reset") and cause.node in attempt.nodes else set()
        unusable = frozenset(down | cordoned | {node for node in bad if node is not None})
        shares = shares_of(attempt)
        return Situation(
            cause=cause,
            places=tuple(self._place(node) for node in attempt.nodes),
            unusable=unusable,
            candidates=tuple(self._place(node) for node in self._candidates(attempt, unusable)),
            history=tuple(self._history(job)),
            max_attempts=spec.restart.max_attempts,
            on_user_error=spec.restart.on_user_error,
            now=now,
            held_since=attempt.held_at or now,
            hold_limit_s=self.platform.settings.hold_limit_s,
            tasks=tuple(len(shares[node]) for node in attempt.nodes),
            least=job.demand.least if job.demand.least < job.demand.count else None,
            unit=job.demand.unit,
            rollback=spec.restart.on_spoilt_loss == "rollback",
            last_step=attempt.last_step,
            every_steps=1 if spec.checkpoint is None else spec.checkpoint.every_steps,
        )

    def _place(self, node: str) -> Place:
        facts = self.platform.node(node)
        return Place(node, facts.leaf, facts.spine, facts.spare)

    def _history(self, job: Job) -> list[PastAttempt]:
        nodes = {row["attempt"]: row["node"] for row in self.platform.store.faults(job.id)}
        return [
            PastAttempt(
                item.number,
                item.cause,
                item.first_step,
                item.last_step,
                nodes.get(item.number),
                item.started_at or item.created_at,
                item.ended_at or 0.0,
            )
            for item in self.platform.store.attempts(job.id)
            if item.ended_at is not None
        ]

    def _candidates(self, attempt: Attempt, unusable: frozenset[str]) -> list[str]:
        """Free, healthy nodes with room for what any one node of the gang carries."""
        pool = self.platform.world.pool
        shares = [share for node, share in shares_of(attempt).items() if not unusable or node in unusable]
        able = pool.up & ~pool.cordoned
        for share in shares:
            able &= pool.cpu_free >= sum(slot.cpu_milli for slot in share)
            able &= pool.memory_free >= sum(slot.memory_bytes for slot in share)
            able &= np.bitwise_count(pool.free_bits) >= sum(len(slot.accelerators) for slot in share)
        for node in unusable:
            able &= _carries(pool.model_bits, pool.index[node])
        held = set(attempt.nodes)
        return [pool.facts[number].id for number in np.flatnonzero(able) if pool.facts[number].id not in held]

    def carry_out(self, job: Job, attempt: Attempt, cause: Cause, decision: Decision, now: float) -> None:
        """Does what was decided."""
        key = attempt.job, attempt.number
        for node in decision.cordon:
            cordoning.request(self.platform, node, cause.label)
        if decision.what == "wait":
            self.ask_at[key] = now + max(decision.delay_s, 0.25)
            if attempt.why != decision.why:
                attempt.why = decision.why
                self.platform.batch.touch_attempt(attempt)
                self.platform.note("decision", job, what="wait", why=decision.why)
            return
        if (
            decision.what == "resume"
            and decision.delay_s > 0
            and now < (attempt.held_at or now) + decision.delay_s
        ):
            self.ask_at[key] = (attempt.held_at or now) + decision.delay_s
            return
        goes_on = decision.what in ("resume", "shrink")
        slots = self._slots(attempt, decision) if goes_on else []
        if goes_on and not slots:
            self.ask_at[key] = now + 0.5
            return
        self.platform.note("decision", job, what=decision.what, why=decision.why, replaced=decision.replaced)
        self._end(attempt, cause)
        if goes_on:
            self._resume(job, slots, decision)
        elif decision.what == "requeue":
            self.platform.world.give(job)
            self.platform.move(job, JobEvent.REQUEUE, why=decision.why)
            self.platform.outbox.extend(end_commands(self.platform, attempt, keep_warm=False))
        else:
            self.platform.world.give(job)
            job.cause, job.why = cause.label, decision.why
            self.platform.move(job, JobEvent.FAIL, why=decision.why, cause=cause.label)
            self.platform.outbox.extend(end_commands(self.platform, attempt, keep_warm=False))
        if not goes_on:
            cool(self.platform, job.id, attempt.number)
        elif self.platform.warm.get(job.id) in decision.replaced.values():
            del self.platform.warm[job.id]  # it is the job's now; the next one is warmed when it runs
        self.causes.pop(key, None)
        self.ask_at.pop(key, None)

    def _end(self, attempt: Attempt, cause: Cause) -> None:
        attempt.cause = cause.label
        self.platform.move_attempt(attempt, AttemptEvent.END)

    def _resume(self, job: Job, slots: list[Slot], decision: Decision) -> None:
        world = self.platform.world
        before = world.give(job)
        try:
            world.take(job, world.pool.placement(slots, job.demand.tasks))
        except ValueError:
            world.take(job, before)
            raise
        attempt = self.platform.begin(job, slots, dict(decision.replaced))
        attempt.rollback = decision.rollback
        self.platform.batch.touch_attempt(attempt)
        self.platform.move(job, JobEvent.RESUME, why=decision.why)
        self.platform.outbox.extend(start_commands(self.platform, job, attempt))

    def _slots(self, attempt: Attempt, decision: Decision) -> list[Slot]:
        """The next attempt's ranks: what is left of a gang that shrinks, else all, stand-ins for lost nodes.

        Empty where a stand-in has no room now.
        """
        if decision.what == "shrink":
            left = [slot for slot in attempt.slots if slot.node not in decision.without]
            return [replace(slot, rank=rank) for rank, slot in enumerate(left[: decision.size])]
        replaced = decision.replaced
        pool = self.platform.world.pool
        slots = {slot.rank: slot for slot in attempt.slots}
        for node, stand_in in replaced.items():
            share = shares_of(attempt)[node]
            free = list(bit_places(int(pool.free_bits[pool.index[stand_in]])))
            if len(free) < sum(len(slot.accelerators) for slot in share):
                return []
            for slot in share:
                taken = tuple(free[: len(slot.accelerators)])
                free = free[len(slot.accelerators) :]
                slots[slot.rank] = replace(slot, node=stand_in, accelerators=taken)
        return [slots[rank] for rank in sorted(slots)]


def _carries(model_bits: Bits, node: int) -> Bools:
    """The nodes with accelerators of every model that a node has."""
    has = model_bits > 0
    able: Bools = np.logical_and.reduce(has | ~has[:, node : node + 1], axis=0)
    return able


def shares_of(attempt: Attempt) -> dict[str, list[Slot]]:
    """What each node of an attempt carries."""
    shares: dict[str, list[Slot]] = defaultdict(list)
    for slot in attempt.slots:
        shares[slot.node].append(slot)
    return shares
