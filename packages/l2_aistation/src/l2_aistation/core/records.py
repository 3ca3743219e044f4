"""Jobs, demands and places as JSON and back, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

import numpy as np

from .claims import Claim
from .demand import Demand, Relation, Rules, TaskDemand
from .job import Job
from .pool import Placement, Pool
from .promise import Promise
from .states import JobState

Record = dict[str, Any]

CHANGING = (
    "state",
    "target",
    "queue",
    "priority",
    "started_at",
    "ran_s",
    "time_s",
    "last_checkpoint_at",
    "preemptible",
    "promised_at",
    "promise",
    "planned_until",
)
"""Attributes of a job that change while it lives and that decisions depend on."""

_APART = frozenset({"demand", "state", "placement", "target", "watcher", "spec_text", "spec_digest", "why"})
_TIMES = ("state", "target")


@lru_cache(maxsize=4096)
def demand_record(demand: Demand) -> Record:
    """A demand as JSON."""
    return {
        "groups": [asdict(group) for group in demand.groups],
        "least": demand.least,
        "preferred": demand.preferred,
        "required": demand.required,
        "rules": None if demand.rules is None else asdict(demand.rules),
        "data": list(demand.data),
    }


def demand_from(record: Mapping[str, Any]) -> Demand:
    """The inverse of `demand_record`."""
    groups = tuple(TaskDemand(**{**group, "models": tuple(group["models"])}) for group in record["groups"])
    rules = record["rules"]
    return Demand(
        groups,
        record["least"],
        record["preferred"],
        record["required"],
        None if rules is None else _rules(rules),
        tuple(record["data"]),
    )


def _rules(record: Mapping[str, Any]) -> Rules:
    def relations(name: str) -> tuple[Relation, ...]:
        return tuple(
            Relation(tuple((key, value) for key, value in item["labels"]), item["level"], item["required"])
            for item in record[name]
        )

    return Rules(relations("near"), relations("apart"), record["spread_level"], record["most_per_domain"])


def changing(job: Job) -> Record:
    """What may have changed of a job."""
    return {name: _plain(getattr(job, name)) for name in CHANGING}


def job_record(job: Job) -> Record:
    """All of a job that decisions depend on, its place apart."""
    record = {item.name: _plain(getattr(job, item.name)) for item in fields(job) if item.name not in _APART}
    return {**record, **changing(job), "demand": demand_record(job.demand)}


def _plain(value: Any) -> Any:
    if isinstance(value, JobState):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def job_from(record: Mapping[str, Any]) -> Job:
    """The inverse of `job_record`."""
    known = {item.name for item in fields(Job)} - {"demand", "depends_on"}
    values = {name: value for name, value in record.items() if name in known}
    return Job(
        demand=demand_from(record["demand"]),
        depends_on=tuple((name, condition) for name, condition in record["depends_on"]),
        **{**values, "state": JobState(record["state"]), "target": _state(record["target"])},
    )


def change(job: Job, record: Mapping[str, Any]) -> None:
    """Gives a job the values that changed."""
    for name in CHANGING:
        value = _state(record[name]) if name in _TIMES else record[name]
        if getattr(job, name) != value:
            setattr(job, name, value)


def _state(value: str | None) -> JobState | None:
    return None if value is None else JobState(value)


def placement_record(pool: Pool, placement: Placement) -> Record:
    """A place as JSON: columns over its ranks, nodes by their ids."""
    columns = {
        "nodes": [pool.facts[node].id for node in placement.nodes.tolist()],
        "bits": placement.bits.tolist(),
        "groups": placement.groups.tolist(),
        "cpu_milli": placement.cpu_milli.tolist(),
        "memory_bytes": placement.memory_bytes.tolist(),
    }
    if placement.share_milli is not None and placement.share_bytes is not None:
        columns["share_milli"] = placement.share_milli.tolist()
        columns["share_bytes"] = placement.share_bytes.tolist()
    return columns


def placement_from(pool: Pool, record: Mapping[str, Any]) -> Placement:
    """The inverse of `placement_record`; `KeyError` where a node has left the pool."""
    share, size = record.get("share_milli"), record.get("share_bytes")
    return Placement(
        np.array([pool.index[node] for node in record["nodes"]], dtype=np.int64),
        np.array(record["bits"], dtype=np.uint64),
        np.array(record["groups"], dtype=np.int64),
        np.array(record["cpu_milli"], dtype=np.int64),
        np.array(record["memory_bytes"], dtype=np.int64),
        None if share is None else np.array(share, dtype=np.int64),
        None if size is None else np.array(size, dtype=np.int64),
    )


def promise_record(pool: Pool, promise: Promise) -> Record:
    """A promise as JSON."""
    place = placement_record(pool, promise.placement)
    return {
        "job": promise.job,
        "at": promise.at,
        "until": promise.until,
        "firm": promise.firm,
        "place": place,
    }


def promise_from(pool: Pool, record: Mapping[str, Any]) -> Promise:
    """The inverse of `promise_record`."""
    place = placement_from(pool, record["place"])
    return Promise(record["job"], float(record["at"]), float(record["until"]), place, record["firm"])


def claim_record(pool: Pool, claim: Claim) -> Record:
    """A claim as JSON."""
    return {
        "place": placement_record(pool, claim.placement),
        "victims": list(claim.victims),
        "since": claim.since,
        "action": claim.action,
    }


def claim_from(pool: Pool, record: Mapping[str, Any]) -> Claim:
    """The inverse of `claim_record`."""
    place = placement_from(pool, record["place"])
    return Claim(place, tuple(record["victims"]), record["since"], record["action"])
