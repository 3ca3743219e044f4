"""What a job waits for besides room: other jobs, its turn in an array, a time of day.

A dependency names a job and what it must have reached: `started`, `completed` or `ended`.  What can
no longer come true is told at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from l2_aistation._kit.problems import BadInput

from .job import Job
from .refusal import Refusal
from .states import FINAL, JobState
from .world import World

STARTED = frozenset({JobState.RUNNING, JobState.COMPLETED})


def refuses(world: World, job: Job, now: float) -> Refusal | None:
    """The first thing that a queued job has to wait for, however much room there is."""
    if job.not_before is not None and now < job.not_before:
        return Refusal(
            "not before", "is not to start for another {needed} {unit}", job.not_before - now, 0, "s"
        )
    for name, condition in job.depends_on:
        refusal = _waits_for(world, name, condition)
        if refusal is not None:
            return refusal
    if job.most_running is not None and job.array is not None:
        running = world.array_running.get(job.array, 0)
        if running >= job.most_running:
            return Refusal(
                "array", "{free} of its array run, which may be {needed} at a time", job.most_running, running
            )
    return None


def _waits_for(world: World, name: str, condition: str) -> Refusal | None:
    state, began = _fate(world, name)
    if state is None:
        return Refusal("dependency", "job {of}, which it depends on, is unknown", of=name, forever=True)
    ended = state in FINAL
    met = {"started": began, "completed": state is JobState.COMPLETED, "ended": ended}[condition]
    if met:
        return None
    if ended:
        return Refusal(
            "dependency",
            f"waits for job {{of}} to have {condition}, which ended as {{unit}}",
            of=name,
            unit=str(state),
            forever=True,
        )
    return Refusal("dependency", f"waits until job {{of}} has {condition}", of=name)


def _fate(world: World, name: str) -> tuple[JobState | None, bool]:
    """A job's state, and whether it ever ran."""
    job = world.jobs.get(name)
    if job is not None:
        return job.state, job.state in STARTED or job.ran_s > 0 or job.started_at is not None
    ended = world.ended.get(name)
    return ended if ended is not None else (None, False)


def check(name: str, depends_on: Iterable[tuple[str, str]], known: Mapping[str, Iterable[str]]) -> None:
    """`BadInput` where a job would depend on an unknown one, on itself, or in a circle.

    `known` maps each job that may be named to the jobs that it depends on itself.
    """
    wanted = [other for other, _ in depends_on]
    for place, other in enumerate(wanted):
        if other != name and other not in known:
            raise BadInput(
                f"no job {other!r}", field=f"depends_on.{place}.job", do="`aistation jobs` lists yours"
            )
    trail = circle({**known, name: wanted}, name)
    if trail is not None:
        raise BadInput(
            "jobs would wait for each other: " + " -> ".join(trail),
            field="depends_on",
            do="take one of these dependencies out",
        )


def circle(edges: Mapping[str, Iterable[str]], start: str) -> list[str] | None:
    """A way from `start` back to it along the edges, or None."""
    seen: set[str] = set()
    stack = [(start, iter(edges.get(start, ())))]
    trail = [start]
    while stack:
        _, others = stack[-1]
        other = next(others, None)
        if other is None:
            stack.pop()
            trail.pop()
        elif other == start:
            return [*trail, start]
        elif other not in seen:
            seen.add(other)
            stack.append((other, iter(edges.get(other, ()))))
            trail.append(other)
    return None
