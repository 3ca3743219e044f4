"""Spares that are ready: the best stand-in of a running job has its imports done already."""

from __future__ import annotations

from collections import Counter

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.events import EndTasks
from l2_aistation.core.world import Job

from .launch import PREIMPORT, warm_command
from .platform import Platform


def warm(platform: Platform, job: Job, attempt: Attempt) -> None:
    """Tells the nearest free spare to get ready, where the job says what to import."""
    if PREIMPORT not in job.spec_text:
        return
    spare = nearest_spare(platform, attempt)
    if spare is None or platform.warm.get(job.id) == spare:
        return
    command = warm_command(platform, job, attempt, spare)
    if command is not None:
        platform.warm[job.id] = spare
        platform.outbox.append(command)


def cool(platform: Platform, job: str, number: int) -> None:
    """Lets a job's warm spare go."""
    spare = platform.warm.pop(job, None)
    if spare is not None:
        platform.outbox.append(EndTasks(job, number, spare, platform.settings.grace_s))


def nearest_spare(platform: Platform, attempt: Attempt) -> str | None:
    """A free, healthy spare, on the leaf (else the spine) with most of the attempt's nodes."""
    pool = platform.world.pool
    leaves = Counter(int(pool.leaf[pool.index[node]]) for node in attempt.nodes)
    spines = Counter(int(pool.spine[pool.index[node]]) for node in attempt.nodes)
    free = (pool.spare & pool.up & ~pool.cordoned & (pool.tasks == 0)).nonzero()[0]
    if not len(free):
        return None
    best = max(free, key=lambda node: (leaves[int(pool.leaf[node])], spines[int(pool.spine[node])], -node))
    return pool.facts[int(best)].id
