"""What users do with jobs: submit, cancel, suspend, release, requeue.  Each is one pass's part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import rfc8785

from l2_aistation._kit.documents import digest_of
from l2_aistation._kit.problems import BadInput, Conflict, Forbidden, NotFound
from l2_aistation._kit.tokens import NAME, Principal
from l2_aistation.core.demand import Demand, demand_of
from l2_aistation.core.explain import impossible
from l2_aistation.core.states import AttemptEvent, JobEvent, JobState
from l2_aistation.core.world import Job
from l2_aistation.documents import JobSpec
from l2_aistation.store.rows import dump

from .launch import end_commands
from .platform import Platform


@dataclass(frozen=True, slots=True)
class CheckedSpec:
    """A spec that holds together, with its demand, its text and its digest."""

    spec: JobSpec
    demand: Demand
    text: str
    digest: str


def check_spec(value: Any) -> CheckedSpec:
    """A spec from its JSON value; a value without an envelope gets one.  `BadInput` names the field."""
    from l2_aistation import __version__

    if isinstance(value, dict) and "producer" not in value:
        value = {"producer": {"name": "l2-aistation", "version": __version__}, **value}
    spec = JobSpec.parse(value, where="job-spec")
    demand = demand_of(spec)
    _check_paths(spec)
    document = spec.as_json()
    try:
        return CheckedSpec(spec, demand, dump(document), digest_of(document))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise BadInput(
            f"the job-spec holds what JSON cannot carry: {error}",
            field="job-spec",
            do="use numbers that are finite and below 2^53, and text without lone surrogates",
        ) from error


def _check_paths(spec: JobSpec) -> None:
    if spec.checkpoint is not None:
        path = spec.checkpoint.path
        if path.startswith("/") or ".." in path.split("/"):
            raise BadInput(
                f"{path!r} leaves the shared folder",
                field="checkpoint.path",
                do="give a path relative to the shared folder, without '..'",
            )
    for number, group in enumerate(spec.tasks):
        texts = [*group.command, *group.environment, *group.environment.values()]
        if any("\0" in text for text in texts):
            raise BadInput("a text has a NUL character", field=f"tasks.{number}", do="take it out")
        bad = [name for name in group.environment if not name or "=" in name]
        if bad:
            raise BadInput(f"{bad[0]!r} is no name of a variable", field=f"tasks.{number}.environment")


def submit(
    platform: Platform,
    who: Principal,
    checked: CheckedSpec,
    *,
    tenant: str | None = None,
    key: str | None = None,
) -> str:
    """Takes a job in and returns its id; the same `key` again returns the same id."""
    spec, demand = checked.spec, checked.demand
    tenant = _tenant(who, tenant)
    if key is not None:
        known = _submitted_before(platform, tenant, key)
        if known is not None:
            return known
    if spec.queue not in platform.world.queues:
        raise BadInput(
            f"there is no queue {spec.queue!r}",
            field="queue",
            do=f"use one of: {', '.join(sorted(platform.world.queues))}",
        )
    never = impossible(platform.world, demand)
    if never is not None:
        raise BadInput(
            f"the gang can never start: {never.words()}",
            field="tasks",
            why=f"the pool {platform.facts.name!r} is smaller than the job",
            do="ask for less, or bring nodes into the pool",
        )
    job = Job(
        id=platform.new_id(spec.name),
        tenant=tenant,
        owner=who.name,
        name=spec.name,
        queue=spec.queue,
        priority=spec.priority,
        submitted_at=platform.clock(),
        demand=demand,
        time_s=spec.limits.time_s,
        spec_text=checked.text,
        spec_digest=checked.digest,
    )
    platform.specs[job.id] = spec
    platform.world.jobs[job.id] = job
    platform.batch.add_job(job, key)
    platform.note(
        "submitted", job, who=who.name, queue=job.queue, priority=job.priority, digest=job.spec_digest
    )
    platform.fresh.add(job.id)
    return job.id


def _tenant(who: Principal, wanted: str | None) -> str:
    if wanted is None or wanted == who.tenant:
        return who.tenant
    if not who.is_operator:
        raise Forbidden("only an operator submits for another tenant", field="tenant")
    if not NAME.match(wanted):
        raise BadInput(f"{wanted!r} is not a name", field="tenant", do="use a-z, 0-9 and '-', 63 at most")
    return wanted


def _submitted_before(platform: Platform, tenant: str, key: str) -> str | None:
    for job, other in platform.batch.new_jobs.values():
        if other == key and job.tenant == tenant:
            return job.id
    row = platform.store.submitted(tenant, key)
    return None if row is None else str(row["id"])


def find(platform: Platform, who: Principal, name: str) -> Job:
    """A live job that the caller may see; `Conflict` when it is over, `NotFound` otherwise."""
    job = platform.world.jobs.get(name)
    if job is not None and who.may_see(job.tenant):
        return job
    row = platform.store.job(name, who.scope())
    if row is None:
        raise NotFound(f"no job {name!r}", do="`aistation jobs` lists yours")
    raise Conflict(f"job {name} is {row['state']} already", do="submit it again if you need it again")


def cancel(platform: Platform, who: Principal, name: str) -> str:
    """Ends a job for good."""
    job = find(platform, who, name)
    if job.state is JobState.STOPPING:
        job.target = JobState.CANCELLED
        platform.batch.touch(job)
        platform.note("cancel", job, who=who.name)
    elif job.state in (JobState.QUEUED, JobState.SUSPENDED):
        platform.move(job, JobEvent.CANCEL, by=who.name)
    else:
        stop(platform, job, JobState.CANCELLED, by=who.name)
    return str(job.state)


def suspend(platform: Platform, who: Principal, name: str) -> str:
    """Takes a job off its nodes until it is released."""
    job = find(platform, who, name)
    if job.state is JobState.QUEUED:
        platform.move(job, JobEvent.SUSPEND, by=who.name)
    else:
        _may_stop(job, "suspend")
        stop(platform, job, JobState.SUSPENDED, by=who.name)
    return str(job.state)


def release(platform: Platform, who: Principal, name: str) -> str:
    """Lets a suspended job wait for a place again."""
    job = find(platform, who, name)
    if job.state is not JobState.SUSPENDED:
        raise Conflict(f"job {name} is {job.state}, not suspended", do="only a suspended job is released")
    platform.move(job, JobEvent.RELEASE, by=who.name)
    return str(job.state)


def requeue(platform: Platform, who: Principal, name: str) -> str:
    """Takes a job off its nodes and lets it wait for others."""
    job = find(platform, who, name)
    _may_stop(job, "requeue")
    stop(platform, job, JobState.QUEUED, by=who.name)
    return str(job.state)


def _may_stop(job: Job, verb: str) -> None:
    if job.state in (JobState.STARTING, JobState.RUNNING, JobState.HELD, JobState.RESUMING):
        return
    raise Conflict(f"job {job.id} is {job.state}: there is nothing to {verb}", do="look at `aistation job`")


def stop(platform: Platform, job: Job, target: JobState, **body: Any) -> None:
    """Ends a job's ranks on the way to `target`."""
    job.target = target
    platform.move(job, JobEvent.STOP, target=str(target), **body)
    attempt = platform.attempts[job.id]
    attempt.fault_at = platform.clock()
    attempt.quiet.clear()
    platform.move_attempt(attempt, AttemptEvent.STOP)
    platform.outbox.extend(end_commands(platform, attempt, keep_warm=False))


USE_CASES = {"cancel": cancel, "suspend": suspend, "release": release, "requeue": requeue}
