"""What if: would a waiting job start, were something different?  Nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from l2_aistation._kit.problems import BadInput, Conflict, NotFound
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.policy import Policy
from l2_aistation.core.whatif import Answer, Change, ask

from .platform import Platform
from .times import moment


def what_if(
    platform: Platform, policies: Sequence[Policy], who: Principal, name: str, change: Change
) -> dict[str, Any]:
    """The next cycle tried on a copy of the live state with `change` in it.  Runs in the loop.

    `starts` is now, at (then `at` says when, by what is promised or estimated), unknown or never;
    `victims` are jobs that would have to leave first, None for one of another tenant.
    """
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
    return _shown(platform, who, name, ask(platform.world, policies, platform.clock(), change, name))


def _shown(platform: Platform, who: Principal, name: str, answer: Answer) -> dict[str, Any]:
    leaves: Counter[str] = Counter()
    if answer.placement is not None and answer.pool is not None:
        nodes = sorted(set(answer.placement.nodes.tolist()))
        leaves.update(answer.pool.facts[node].leaf for node in nodes)
    jobs = platform.world.jobs
    return {
        "job": name,
        "starts": answer.starts,
        "at": moment(answer.at),
        "words": answer.words,
        "leaves": dict(leaves),
        "victims": [other if who.may_see(jobs[other].tenant) else None for other in answer.victims],
    }
