"""Who may do what: an operator all; the owner of a queue what is in it; a user its own jobs.

Everybody sees the jobs of its tenant and nobody else's.  An owner of a queue acts on its tenant's jobs
in that queue and those below it, and sets the limits of the queues below it.
"""

from __future__ import annotations

from l2_aistation._kit.problems import Forbidden
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.job import Job

from .platform import Platform


def owns_queue(platform: Platform, who: Principal, queue: str) -> bool:
    """Whether a queue is one of the caller's, or lies below one."""
    if who.is_operator:
        return True
    if not who.queues or queue not in platform.world.queues:
        return False
    return any(name in who.queues for name in platform.world.lineage(queue))


def may_act(platform: Platform, who: Principal, job: Job) -> bool:
    """Whether the caller may cancel, suspend, release, requeue a job that it sees."""
    if who.is_operator or (who.tenant == job.tenant and who.name == job.owner):
        return True
    return who.tenant == job.tenant and owns_queue(platform, who, job.queue)


def must_act(platform: Platform, who: Principal, job: Job) -> None:
    """`Forbidden` where the caller sees the job and may not act on it."""
    if not may_act(platform, who, job):
        raise Forbidden(
            f"job {job.id} is {job.owner}'s",
            why="a user acts on its own jobs, the owner of a queue on those in it",
            do="ask its owner, the owner of its queue, or an operator",
        )


def must_own_queue(platform: Platform, who: Principal, queue: str, parent: str | None) -> None:
    """`Forbidden` where the caller may not set this queue: an owner sets those below its own."""
    if who.is_operator:
        return
    before = platform.world.queues.get(queue)
    parents = {parent} if before is None else {parent, before.parent}
    if not all(name is not None and owns_queue(platform, who, name) for name in parents):
        raise Forbidden(
            f"only an operator or the owner of a queue above may set queue {queue}",
            do="ask an operator, or name one of your queues as its parent",
        )
