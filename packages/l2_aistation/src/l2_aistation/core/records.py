"""Jobs, demands and places as JSON and back, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from functools import lru_cache
from typing import Any

import numpy as np

from .claims import Claim
from .demand import Demand, Relation, Rules, TaskDemand
from .devices import Bits, Ints
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

_APART = frozenset({"demand", "placement", "watcher", "spec_text", "spec_digest", "why"})
_TIMES = ("state", "target")
_DEFAULTS = {
    item.name: item.default_factory() if item.default_factory is not MISSING else item.default
    for item in fields(Job)
    if item.name not in _APART
}
"""What a job has unless it is said otherwise; `MISSING` where it always is."""


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
        **({} if demand.unit == 1 else {"unit": demand.unit}),
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
        record.get("unit", 1),
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
    """All of a job that decisions depend on, its place apart; what every job has by default is left out."""
    record: Record = {"demand": demand_record(job.demand)}
    for name, usual in _DEFAULTS.items():
        value = getattr(job, name)
        if value is not usual and (type(value) is not type(usual) or value != usual):
            record[name] = _plain(value)
    return record


def _plain(value: Any) -> Any:
    if isinstance(value, JobState):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def job_from(record: Mapping[str, Any]) -> Job:
    """The inverse of `job_record`."""
    values = {name: value for name, value in record.items() if name in _DEFAULTS}
    for name in _TIMES:
        if name in values:
            values[name] = _state(values[name])
    if "depends_on" in values:
        values["depends_on"] = tuple((name, condition) for name, condition in values["depends_on"])
    return Job(demand=demand_from(record["demand"]), **values)


def change(job: Job, record: Mapping[str, Any]) -> None:
    """Gives a job the values that changed."""
    for name in CHANGING:
        value = _state(record[name]) if name in _TIMES else record[name]
        if getattr(job, name) != value:
            setattr(job, name, value)


def _state(value: str | None) -> JobState | None:
    return None if value is None else JobState(value)


def placement_record(pool: Pool, placement: Placement) -> Record:
    """A place as JSON: nodes by their ids, and columns over the ranks; one number where all are equal."""
    facts = pool.facts
    columns = {
        "nodes": [facts[node].id for node in placement.nodes.tolist()],
        "bits": _column(placement.bits),
        "groups": _column(placement.groups),
        "cpu_milli": _column(placement.cpu_milli),
        "memory_bytes": _column(placement.memory_bytes),
    }
    if placement.share_milli is not None and placement.share_bytes is not None:
        columns["share_milli"] = _column(placement.share_milli)
        columns["share_bytes"] = _column(placement.share_bytes)
    return columns


def _column(values: Ints | Bits) -> Any:
    every: list[int] = values.tolist()
    return every[0] if every.count(every[0]) == len(every) else every


def placement_from(pool: Pool, record: Mapping[str, Any]) -> Placement:
    """The inverse of `placement_record`; `KeyError` where a node has left the pool."""
    nodes = np.array([pool.index[node] for node in record["nodes"]], dtype=np.int64)

    def column(name: str) -> Ints:
        return np.full(len(nodes), record[name], dtype=np.int64)

    shares = "share_milli" in record
    return Placement(
        nodes,
        np.full(len(nodes), record["bits"], dtype=np.uint64),
        column("groups"),
        column("cpu_milli"),
        column("memory_bytes"),
        column("share_milli") if shares else None,
        column("share_bytes") if shares else None,
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
