"""Submission: one spec, an array, or several specs that may depend on each other; all or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from l2_aistation._kit.problems import BadInput, Forbidden
from l2_aistation._kit.tokens import NAME, Principal
from l2_aistation.core import dependencies
from l2_aistation.core.explain import impossible
from l2_aistation.core.job import Job

from .platform import Platform
from .specs import CheckedSpec, fields_of


def submit(
    platform: Platform,
    who: Principal,
    checked: CheckedSpec,
    *,
    tenant: str | None = None,
    key: str | None = None,
) -> str:
    """Takes a job (or an array) in and returns its id; the same `key` again returns the same id."""
    return str(submit_spec(platform, who, checked, tenant=tenant, key=key)["id"])


def submit_spec(
    platform: Platform,
    who: Principal,
    checked: CheckedSpec,
    *,
    tenant: str | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    """The answer to a submission: id, digest, and an array's jobs."""
    tenant = tenant_for(who, tenant)
    known = _submitted_before(platform, tenant, key)
    if known is not None:
        return {"id": known, "spec_digest": checked.digest}
    name = platform.new_id(checked.spec.name)
    _check(platform, tenant, checked, name, {})
    return _admit(platform, who, tenant, checked, name, key)


def submit_many(
    platform: Platform,
    who: Principal,
    specs: Sequence[CheckedSpec],
    ids: Sequence[str],
    *,
    tenant: str | None = None,
    key: str | None = None,
) -> list[dict[str, Any]]:
    """Takes several jobs in, all or none."""
    tenant = tenant_for(who, tenant)
    keys = [None if key is None else f"{key}.{number}" for number in range(len(specs))]
    known = [_submitted_before(platform, tenant, one) for one in keys]
    if all(known):
        return [
            {"id": name, "spec_digest": checked.digest} for name, checked in zip(known, specs, strict=True)
        ]
    edges = {
        name: [item.job for item in checked.spec.depends_on] for name, checked in zip(ids, specs, strict=True)
    }
    for number, (name, checked) in enumerate(zip(ids, specs, strict=True)):
        try:
            _check(platform, tenant, checked, name, edges)
        except BadInput as problem:
            problem.field = f"jobs.{number}.{problem.field}"
            raise
    return [
        _admit(platform, who, tenant, checked, name, one)
        for name, checked, one in zip(ids, specs, keys, strict=True)
    ]


def _check(
    platform: Platform, tenant: str, checked: CheckedSpec, name: str, siblings: dict[str, list[str]]
) -> None:
    spec = checked.spec
    if spec.queue not in platform.world.queues:
        raise BadInput(
            f"there is no queue {spec.queue!r}",
            field="queue",
            do=f"use one of: {', '.join(sorted(platform.world.queues))}",
        )
    if any(queue.parent == spec.queue for queue in platform.world.queues.values()):
        raise BadInput(f"queue {spec.queue!r} has queues below it", field="queue", do="name one of those")
    never = impossible(platform.world, checked.demand)
    if never is not None:
        raise BadInput(
            f"the gang can never start: {never.words()}",
            field="tasks",
            why=f"the pool {platform.facts.name!r} is smaller than the job",
            do="ask for less, or bring nodes into the pool",
        )
    if spec.reservation is not None and spec.reservation not in platform.world.windows:
        raise BadInput(
            f"there is no reservation {spec.reservation!r}",
            field="reservation",
            do="`aistation window list` shows them",
        )
    if spec.depends_on:
        wanted = tuple((item.job, item.condition) for item in spec.depends_on)
        known = {**siblings, **_named(platform, tenant, [job for job, _ in wanted])}
        dependencies.check(name, wanted, known)


def _named(platform: Platform, tenant: str, names: Sequence[str]) -> dict[str, list[str]]:
    """The tenant's jobs of these ids, each with what it depends on; ended ones are noted in the world."""
    known: dict[str, list[str]] = {}
    for name in names:
        job = platform.world.jobs.get(name)
        if job is not None:
            if job.tenant == tenant:
                known[name] = [other for other, _ in job.depends_on]
            continue
        row = platform.store.job(name, tenant)
        if row is not None:
            platform.note_ended(row)
            known[name] = []
    return known


def _admit(
    platform: Platform, who: Principal, tenant: str, checked: CheckedSpec, name: str, key: str | None
) -> dict[str, Any]:
    spec = checked.spec
    if spec.array is None:
        _add(platform, who, tenant, checked, name, key)
        return {"id": name, "spec_digest": checked.digest}
    jobs = [
        _add(platform, who, tenant, checked, f"{name}-{index}", key if index == 0 else None, (name, index))
        for index in range(spec.array.count)
    ]
    return {"id": name, "spec_digest": checked.digest, "jobs": jobs}


def _add(
    platform: Platform,
    who: Principal,
    tenant: str,
    checked: CheckedSpec,
    name: str,
    key: str | None,
    member: tuple[str, int] | None = None,
) -> str:
    spec = checked.spec
    array, index = member if member is not None else (None, None)
    job = Job(
        id=name,
        tenant=tenant,
        owner=who.name,
        name=spec.name,
        queue=spec.queue,
        priority=spec.priority,
        submitted_at=platform.clock(),
        demand=checked.demand,
        spec_text=checked.text,
        spec_digest=checked.digest,
        array=array,
        array_index=index,
        **fields_of(spec),
    )
    platform.keep_spec(job.id, spec)
    platform.world.jobs[job.id] = job
    platform.batch.add_job(job, key)
    platform.note(
        "submitted", job, who=who.name, queue=job.queue, priority=job.priority, digest=job.spec_digest
    )
    platform.fresh.add(job.id)
    return job.id


def tenant_for(who: Principal, wanted: str | None) -> str:
    """The tenant to act for: the caller's, or for an operator any."""
    if wanted is None or wanted == who.tenant:
        return who.tenant
    if not who.is_operator:
        raise Forbidden("only an operator submits for another tenant", field="tenant")
    if not NAME.match(wanted):
        raise BadInput(f"{wanted!r} is not a name", field="tenant", do="use a-z, 0-9 and '-', 63 at most")
    return wanted


def _submitted_before(platform: Platform, tenant: str, key: str | None) -> str | None:
    if key is None:
        return None
    for job, other in platform.batch.new_jobs.values():
        if other == key and job.tenant == tenant:
            return job.array or job.id
    row = platform.store.submitted(tenant, key)
    return None if row is None else str(row["array"] or row["id"])
