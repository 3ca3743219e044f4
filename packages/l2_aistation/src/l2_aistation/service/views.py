"""What people see: jobs, records, the pool, queues, explanations; never another tenant's things."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from l2_aistation._kit.documents import Producer, Reference
from l2_aistation._kit.problems import NotFound
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.attempt import Attempt
from l2_aistation.core.events import Condition
from l2_aistation.core.explain import Explanation, explain
from l2_aistation.core.pool import bit_places
from l2_aistation.core.states import JobState
from l2_aistation.core.world import Amount, Job
from l2_aistation.documents import (
    AttemptRecord,
    FaultRecord,
    JobRecord,
    JobSpec,
    PlacedTask,
    StepSample,
)

from .loop import Service
from .platform import Platform
from .times import moment, time_of

OTHER = "another tenant"
SILENT = Condition()
CLUSTER_REPORT = "ogai.cluster-report/v1"


def job_view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A job's row for people."""
    return {
        "id": row["id"],
        "name": row["name"],
        "tenant": row["tenant"],
        "owner": row["owner"],
        "queue": row["queue"],
        "priority": row["priority"],
        "state": row["state"],
        "attempt": row["attempt"],
        "submitted_at": moment(row["submitted_at"]),
        "started_at": moment(row["started_at"]),
        "ended_at": moment(row["ended_at"]),
        "cause": row["cause"],
        "why": row["why"],
        "spec_digest": row["spec_digest"],
    }


def job_row(service: Service, who: Principal, name: str) -> Mapping[str, Any]:
    """A job's row, or the same 404 whether it is not there or not the caller's."""
    row = service.store.job(name, who.scope())
    if row is None:
        raise NotFound(f"no job {name!r}", do="`aistation jobs` lists yours")
    return row


def job_detail(service: Service, who: Principal, name: str) -> dict[str, Any]:
    """A job with its spec, attempts and faults."""
    row = job_row(service, who, name)
    facts = leaves(service)
    return {
        **job_view(row),
        "spec": json.loads(row["spec"]),
        "attempts": [attempt_view(item, facts) for item in service.store.attempts(name)],
        "faults": [{**fault, "at": moment(fault["at"])} for fault in service.store.faults(name)],
    }


def leaves(service: Service) -> dict[str, str]:
    """The leaf of each node."""
    return {node.id: node.leaf for node in service.platform.facts.nodes}


def attempt_view(attempt: Attempt, leaf: Mapping[str, str]) -> dict[str, Any]:
    """An attempt for people."""
    return {
        "number": attempt.number,
        "state": str(attempt.state),
        "placement": [
            {
                "rank": slot.rank,
                "task": slot.task,
                "node": slot.node,
                "leaf": leaf.get(slot.node, "unknown"),
                "accelerators": list(slot.accelerators),
            }
            for slot in attempt.slots
        ],
        "created_at": moment(attempt.created_at),
        "started_at": moment(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "fault_at": moment(attempt.fault_at),
        "held_at": moment(attempt.held_at),
        "cause": attempt.cause,
        "why": attempt.why,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "checkpoint_step": attempt.checkpoint_step,
        "resumed_from": attempt.resumed_from,
        "lost_steps": attempt.lost_steps,
        "replaced": attempt.replaced,
    }


def record(service: Service, who: Principal, name: str) -> JobRecord:
    """What became of a job, as the document that other layers read."""
    from l2_aistation import __version__

    row = job_row(service, who, name)
    leaf = leaves(service)
    attempts = service.store.attempts(name)
    spec = Reference(schema_=JobSpec.SCHEMA, digest=row["spec_digest"])
    pool = service.store.pool_digest(row["submitted_at"])
    return JobRecord(
        producer=Producer(name="l2-aistation", version=__version__),
        inputs=[spec, *([Reference(schema_=CLUSTER_REPORT, digest=pool)] if pool else [])],
        job=row["id"],
        name=row["name"],
        tenant=row["tenant"],
        queue=row["queue"],
        spec=spec,
        state=row["state"],
        submitted_at=time_of(row["submitted_at"]),
        ended_at=None if row["ended_at"] is None else time_of(row["ended_at"]),
        attempts=[_attempt_record(item, leaf) for item in attempts],
        faults=[
            FaultRecord(
                at=time_of(fault["at"]),
                label=fault["label"],
                category=fault["category"],
                node=fault["node"],
                rank=fault["rank"],
                evidence=fault["evidence"],
                action=fault["action"],
                confidence=fault["confidence"],
            )
            for fault in service.store.faults(name)
        ],
        steps=[
            StepSample(step=step["step"], at=time_of(step["at"]), loss=step["loss"])
            for step in service.store.steps(name)
        ],
        utilisation=_utilisation(attempts, row),
    )


def _attempt_record(attempt: Attempt, leaf: Mapping[str, str]) -> AttemptRecord:
    return AttemptRecord(
        number=attempt.number,
        placement=[
            PlacedTask(
                task=slot.task,
                rank=slot.rank,
                node=slot.node,
                leaf=leaf.get(slot.node, "unknown"),
                accelerators=list(slot.accelerators),
                accelerator_share=slot.share,
            )
            for slot in attempt.slots
        ],
        started_at=time_of(attempt.started_at or attempt.created_at),
        ended_at=None if attempt.ended_at is None else time_of(attempt.ended_at),
        cause=attempt.cause,
        first_step=attempt.first_step,
        last_step=attempt.last_step,
        resumed_from=attempt.resumed_from,
        lost_steps=attempt.lost_steps,
        replaced=attempt.replaced,
    )


def _utilisation(attempts: list[Attempt], row: Mapping[str, Any]) -> float | None:
    """The share of its held time in which the job's ranks ran (faults and starts are the rest)."""
    if not attempts or row["ended_at"] is None:
        return None
    held = row["ended_at"] - attempts[0].created_at
    ran = sum(
        (item.fault_at or item.ended_at or row["ended_at"]) - item.started_at
        for item in attempts
        if item.started_at is not None
    )
    return min(max(ran / held, 0.0), 1.0) if held > 0 else None


def explain_job(platform: Platform, who: Principal, name: str) -> dict[str, Any]:
    """Why a job waits, in words and numbers.  Runs in the loop."""
    job = platform.world.jobs.get(name)
    if job is None or not who.may_see(job.tenant):
        row = platform.store.job(name, who.scope())
        if row is None:
            raise NotFound(f"no job {name!r}", do="`aistation jobs` lists yours")
        return {"job": name, "state": row["state"], "words": f"the job is {row['state']}", "limit": None}
    if job.state is not JobState.QUEUED:
        attempt = platform.attempts.get(name)
        why = (attempt.why if attempt else "") or job.why
        words = f"the job is {job.state}" + (f": {why}" if why else "")
        return {"job": name, "state": str(job.state), "words": words, "limit": None}
    refusal = platform.world.waiting.refusal(name)
    answer = explain(platform.world, job, refusal, platform.clock())
    times = {
        "promised_at": moment(answer.promised_at),
        "estimated_at": moment(answer.estimated_at),
        "promise": answer.promise,
    }
    return {**_explanation(who, job, answer), **times}


def _explanation(who: Principal, job: Job, answer: Explanation) -> dict[str, Any]:
    refusal = answer.refusal
    if refusal is None:
        return {"job": job.id, "state": "queued", "words": "the next cycle looks at it", "limit": None}
    holders = [
        {
            "job": holder.job if who.may_see(holder.tenant) else None,
            "tenant": holder.tenant if who.may_see(holder.tenant) else OTHER,
            "amount": holder.amount,
            "unit": holder.unit,
            "until": moment(holder.until),
        }
        for holder in answer.holders
    ]
    return {
        "job": job.id,
        "state": "queued",
        "words": refusal.words(),
        "template": refusal.template,
        "limit": refusal.limit,
        "needed": refusal.needed,
        "free": refusal.free,
        "unit": refusal.unit,
        "of": refusal.of,
        "forever": refusal.forever,
        "holders": holders,
        "start_by": moment(answer.start_by),
        "ahead": answer.position,
    }


def pool_view(platform: Platform, who: Principal) -> dict[str, Any]:
    """The pool: every node with its accelerators and who holds them.  Runs in the loop."""
    pool = platform.world.pool
    holders: dict[tuple[int, int], Job] = {}
    on_node: dict[int, dict[str, Job]] = {}
    for job in platform.world.holders():
        if job.placement is None:
            continue
        for node, bits in zip(job.placement.nodes.tolist(), job.placement.bits.tolist(), strict=True):
            on_node.setdefault(node, {})[job.id] = job
            for place in bit_places(bits):
                holders[node, place] = job
    nodes = []
    for number, facts in enumerate(pool.facts):
        accelerators = []
        said = platform.conditions.get(facts.id, SILENT)
        for place, item in enumerate(facts.accelerators):
            holder = holders.get((number, place))
            accelerators.append({"index": item.index, "model": item.model, **_holder(holder, who)})
        nodes.append(
            {
                "id": facts.id,
                "leaf": facts.leaf,
                "spine": facts.spine,
                "rack": facts.rack,
                "address": facts.address,
                "engine": facts.engine,
                "spare": bool(pool.spare[number]),
                "state": _node_state(platform, number),
                "reason": platform.cordons.get(facts.id, ""),
                "weak_links": list(said.weak_links),
                "faults": list(said.faults),
                "cpu_cores": facts.cpu_cores,
                "cpu_cores_free": int(pool.cpu_free[number]) / 1000,
                "memory_bytes": facts.memory_bytes,
                "accelerators": accelerators,
                "jobs": [_holder(job, who) for job in on_node.get(number, {}).values()],
                "last_seen": moment(platform.seen.get(facts.id)) if pool.up[number] else None,
            }
        )
    return {
        "cluster": platform.facts.name,
        "digest": platform.facts.digest,
        **_sums(platform),
        "nodes": nodes,
    }


def _holder(job: Job | None, who: Principal) -> dict[str, Any]:
    if job is None:
        return {"job": None, "queue": None}
    seen = who.may_see(job.tenant)
    return {"job": job.id if seen else OTHER, "queue": job.queue if seen else OTHER}


def _node_state(platform: Platform, number: int) -> str:
    pool = platform.world.pool
    if not pool.up[number]:
        return "down"
    if pool.cordoned[number]:
        return "cordoned"
    if pool.spare[number] and not pool.tasks[number]:
        return "spare"
    return "busy" if pool.tasks[number] else "free"


def _sums(platform: Platform) -> dict[str, Any]:
    pool = platform.world.pool
    total, free = pool.totals(), pool.totals(pool.usable, free=True)
    held = int(np.bitwise_count(pool.all_bits ^ pool.free_bits).sum())
    return {
        "accelerators": total.accelerators,
        "accelerators_free": free.accelerators,
        "accelerators_held": held,
        "cpu_cores": total.cpu_milli / 1000,
        "cpu_cores_free": free.cpu_milli / 1000,
        "up": int(pool.up.sum()),
        "down": int((~pool.up).sum()),
        "cordoned": int(pool.cordoned.sum()),
        "spares": int(pool.spare.sum()),
    }


def queues_view(platform: Platform, who: Principal) -> list[dict[str, Any]]:
    """Queues with what they use; counts of jobs are the caller's own.  Runs in the loop."""
    world = platform.world
    jobs: dict[str, dict[str, int]] = {}
    for job in world.jobs.values():
        if who.may_see(job.tenant):
            counts = jobs.setdefault(job.queue, {"waiting": 0, "active": 0})
            counts["active" if job.placement is not None else "waiting"] += 1
    rows = []
    for queue in sorted(world.queues.values(), key=lambda item: item.name):
        used = world.by_queue.get(queue.name, Amount())
        record = queue.as_record()
        rows.append(
            {
                "name": record.pop("name"),
                **record,
                "used_accelerators": used.accelerators,
                "used_cpu_cores": used.cpu_milli / 1000,
                "used_models": {model: milli / 1000 for model, milli in used.models.items()},
                "borrowed_accelerators": max(used.accelerators - queue.guarantee_accelerators, 0),
                "share": used.dominant_share(world.totals, queue.unlimited),
                "usage": world.usage_share(queue.name),
                **jobs.get(queue.name, {"waiting": 0, "active": 0}),
            }
        )
    return rows
