"""Objects to rows and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from json.encoder import encode_basestring as quoted
from typing import Any

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.healing import LostNode, RankExit, Stall
from l2_aistation.core.pool import AcceleratorFacts, ClusterFacts, NodeFacts, Slot
from l2_aistation.core.states import AttemptState
from l2_aistation.core.world import Job, Queue

_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def dump(value: Any) -> str:
    """Compact JSON."""
    return _compact(value)


def job_row(job: Job) -> dict[str, Any]:
    """The columns of a job that change."""
    return {
        "queue": job.queue,
        "priority": job.priority,
        "state": str(job.state),
        "target": None if job.target is None else str(job.target),
        "attempt": job.attempt,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "cause": job.cause,
        "why": job.why,
        "promised_at": job.promised_at,
        "ran_s": job.ran_s,
    }


def new_job_row(job: Job, submit_key: str | None) -> dict[str, Any]:
    """All columns of a new job."""
    return {
        **job_row(job),
        "id": job.id,
        "tenant": job.tenant,
        "owner": job.owner,
        "name": job.name,
        "spec": job.spec_text,
        "spec_digest": job.spec_digest,
        "submit_key": submit_key,
        "submitted_at": job.submitted_at,
        "accelerators": job.demand.accelerators,
        "cpu_milli": job.demand.cpu_milli,
        "labels": dump(job.labels),
        "array": job.array,
        "array_index": job.array_index,
        "version": job.version,
    }


def past_job(row: Mapping[str, Any]) -> Job:
    """A job that ended, as far as estimates learn from it."""
    demand = Demand((TaskDemand("all", 1, row["cpu_milli"], accelerators=row["accelerators"]),), 1)
    return Job(
        row["id"],
        row["tenant"],
        row["queue"],
        0,
        row["submitted_at"],
        demand,
        name=row["name"],
        owner=row["owner"],
    )


def attempt_row(attempt: Attempt) -> dict[str, Any]:
    """The columns of an attempt that change."""
    progress = {
        "started": sorted(attempt.started),
        "exits": [asdict(item) for item in attempt.exits.values()],
        "stalls": [asdict(item) for item in attempt.stalls],
        "lost": [asdict(item) for item in attempt.lost.values()],
        "quiet": sorted(attempt.quiet),
        "fault_at": attempt.fault_at,
        "held_at": attempt.held_at,
        "checkpoint_step": attempt.checkpoint_step,
        "checkpoint_at": attempt.checkpoint_at,
        "why": attempt.why,
        "rollback": attempt.rollback,
    }
    return {
        "state": str(attempt.state),
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "cause": attempt.cause,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "resumed_from": attempt.resumed_from,
        "lost_steps": attempt.lost_steps,
        "progress": dump(progress),
        "fault_at": attempt.fault_at,
    }


def new_attempt_row(attempt: Attempt, slots: str) -> dict[str, Any]:
    """All columns of a new attempt, its slots as text."""
    return {
        **attempt_row(attempt),
        "job": attempt.job,
        "number": attempt.number,
        "slots": slots,
        "master_port": attempt.master_port,
        "created_at": attempt.created_at,
        "replaced": dump(attempt.replaced),
        "held": dump(attempt.held),
        "version": attempt.version,
    }


def slots_text(slots: Iterable[Slot]) -> str:
    """Slots as JSON, in rank order; what they hold of a part of an accelerator only where they do."""
    words: list[str] = []
    tail, tail_of = "", None
    for slot in slots:  # most ranks of a gang differ in nothing but their node
        holds = slot.cpu_milli, slot.memory_bytes, slot.accelerators
        part = slot.accelerator_milli, slot.accelerator_bytes
        if (holds, part) != tail_of:
            tail_of = holds, part
            tail = dump([*holds, *part] if any(part) else holds)[1:]
        words.append(f"[{quoted(slot.task)},{quoted(slot.node)},{tail}")
    return f"[{','.join(words)}]"


def slots_of(text: str) -> list[Slot]:
    """The inverse of `slots_text`."""
    return [
        Slot(rank, task, node, cpu, memory, tuple(accelerators), *part)
        for rank, (task, node, cpu, memory, accelerators, *part) in enumerate(json.loads(text))
    ]


def attempt_of(row: Mapping[str, Any]) -> Attempt:
    """An attempt from its row."""
    progress = json.loads(row["progress"])
    exits = [RankExit(**{**item, "tail": tuple(item["tail"])}) for item in progress["exits"]]
    stalls = [Stall(**{**item, "evidence": tuple(item["evidence"])}) for item in progress["stalls"]]
    return Attempt(
        job=row["job"],
        number=row["number"],
        slots=slots_of(row["slots"]),
        master_port=row["master_port"],
        created_at=row["created_at"],
        state=AttemptState(row["state"]),
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        cause=row["cause"],
        first_step=row["first_step"],
        last_step=row["last_step"],
        checkpoint_step=progress["checkpoint_step"],
        checkpoint_at=progress.get("checkpoint_at"),
        resumed_from=row["resumed_from"],
        lost_steps=row["lost_steps"],
        replaced=json.loads(row["replaced"]),
        started=set(progress["started"]),
        exits={item.rank: item for item in exits},
        stalls=stalls,
        lost={item["node"]: LostNode(**item) for item in progress["lost"]},
        quiet=set(progress["quiet"]),
        fault_at=progress["fault_at"],
        held_at=progress["held_at"],
        why=progress["why"],
        rollback=None if progress.get("rollback") is None else tuple(progress["rollback"]),
        version=row["version"],
    )


PLAIN_COLUMNS = (
    "name",
    "guarantee_accelerators",
    "guarantee_cpu_cores",
    "cap_accelerators",
    "cap_cpu_cores",
    "weight",
    "version",
)
"""What a queue has columns for; the rest of it is the JSON of `policy`."""


def queue_row(queue: Queue) -> dict[str, Any]:
    """All columns of a queue."""
    record = queue.as_record()
    row = {name: record.pop(name) for name in PLAIN_COLUMNS}
    return {**row, "parent": record.pop("parent", None), "policy": dump(record)}


def queue_of(row: Mapping[str, Any]) -> Queue:
    """A queue from its row."""
    plain = {name: row[name] for name in (*PLAIN_COLUMNS, "parent")}
    return Queue.from_record({**plain, **json.loads(row["policy"])})


def facts_text(facts: ClusterFacts) -> str:
    """A cluster's facts as JSON."""
    return dump(asdict(facts))


def facts_of(text: str) -> ClusterFacts:
    """A cluster's facts from JSON."""
    value = json.loads(text)
    nodes = tuple(
        NodeFacts(
            **{
                **node,
                "accelerators": tuple(AcceleratorFacts(**item) for item in node["accelerators"]),
                "weak_rails": tuple(node.get("weak_rails", ())),
            }
        )
        for node in value["nodes"]
    )
    weak = tuple(value.get("weak_leaves", ()))
    return ClusterFacts(value["name"], nodes, value["digest"], value["tenant"], weak)
