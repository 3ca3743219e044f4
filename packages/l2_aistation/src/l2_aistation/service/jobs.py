"""What users do with jobs: submit, cancel, suspend, release, requeue.  Each is one pass's part."""

from __future__ import annotations

from typing import Any

from l2_aistation._kit.problems import Conflict, NotFound
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.job import Job
from l2_aistation.core.states import AttemptEvent, JobEvent, JobState

from .launch import end_commands
from .platform import Platform
from .rights import must_act
from .specs import check_spec
from .submission import submit

__all__ = [
    "USE_CASES",
    "act",
    "cancel",
    "check_spec",
    "find",
    "release",
    "requeue",
    "stop",
    "submit",
    "suspend",
]


def find(platform: Platform, who: Principal, name: str) -> Job:
    """A live job that the caller may act on; `Conflict` when it is over, `NotFound` otherwise."""
    job = platform.world.jobs.get(name)
    if job is not None and who.may_see(job.tenant):
        must_act(platform, who, job)
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


def act(platform: Platform, who: Principal, name: str, verb: str) -> dict[str, Any]:
    """A verb on a job, or on all members of an array that it concerns, by the array's id."""
    use_case = USE_CASES[verb]
    members = [] if name in platform.world.jobs else _members(platform, who, name)
    if not members:
        return {"id": name, "state": use_case(platform, who, name)}
    for member in members:
        must_act(platform, who, platform.world.jobs[member])
    done: dict[str, str] = {}
    for member in members:
        try:
            done[member] = use_case(platform, who, member)
        except Conflict:
            continue  # its state has no such verb; others' may
    if not done:
        raise Conflict(f"no job of array {name} is in a state to {verb}", do="look at `aistation jobs`")
    return {"id": name, "state": " and ".join(sorted(set(done.values()))), "jobs": list(done)}


def _members(platform: Platform, who: Principal, array: str) -> list[str]:
    jobs = platform.world.jobs.values()
    return [job.id for job in jobs if job.array == array and who.may_see(job.tenant)]
