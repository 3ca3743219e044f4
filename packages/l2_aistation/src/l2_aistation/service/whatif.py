"""What if: would a waiting job start, were something different?  Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from l2_aistation._kit.problems import BadInput, Conflict, NotFound
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.policy import Policy
from l2_aistation.core.whatif import Change, Question, answer, question

from .platform import Platform
from .times import moment


def asked(
    platform: Platform, policies: Sequence[Policy], who: Principal, name: str, change: Change
) -> Question:
    """The question with a copy of the live state.  Runs in the loop, for about a microsecond a job."""
    job = platform.world.jobs.get(name)
    if job is None or not who.may_see(job.tenant):
        row = platform.store.job(name, who.scope())
        if row is None:
            raise NotFound(f"no job {name!r}", do="`aistation jobs` lists yours")
        raise Conflict(f"job {name} is {row['state']} already", do="ask about one that waits")
    for other in change.without:
        found = platform.world.jobs.get(other)
        if found is None or not who.may_see(found.tenant):
            raise BadInput(f"no live job {other!r}", field="without", do="`aistation jobs` lists yours")
    return question(platform.world, policies, platform.clock(), change, name)


def answered(one: Question, who: Principal) -> dict[str, Any]:
    """The next cycle tried on the copy with the change in it.  Runs in a thread of its own.

    `starts` is now, at (then `at` says when, by what is promised or estimated), unknown or never;
    `victims` are jobs that would have to leave first, None for one of another tenant.
    """
    found = answer(one)
    leaves: Counter[str] = Counter()
    if found.placement is not None and found.pool is not None:
        nodes = sorted(set(found.placement.nodes.tolist()))
        leaves.update(found.pool.facts[node].leaf for node in nodes)
    return {
        "job": one.name,
        "starts": found.starts,
        "at": moment(found.at),
        "words": found.words,
        "leaves": dict(leaves),
        "victims": [job if who.may_see(tenant) else None for job, tenant in found.victims],
    }
