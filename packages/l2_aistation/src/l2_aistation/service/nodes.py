"""What an operator does with the pool."""

from __future__ import annotations

from typing import Any

from l2_aistation._kit.problems import Conflict, NotFound
from l2_aistation._kit.tokens import Principal
from l2_aistation.core.pool import ClusterFacts

from .engines import with_engine
from .platform import Platform


def import_pool(platform: Platform, who: Principal, facts: ClusterFacts) -> dict[str, Any]:
    """Takes a cluster in as the pool; refused where it would take a node from under a job."""
    who.must_be_operator()
    facts = with_engine(facts, platform.settings)
    names = {node.id for node in facts.nodes}
    for job in platform.world.holders():
        attempt = platform.attempts[job.id]
        gone = sorted(set(attempt.nodes) - names)
        if gone:
            raise Conflict(
                f"job {job.id} runs on {gone[0]}, which is not in the new pool",
                do="cancel or requeue the job first",
            )
        _same_accelerators(platform, attempt.nodes, facts)
    platform.replace_pool(facts)
    platform.batch.cluster = (facts, platform.clock())
    platform.note("pool", None, who=who.name, name=facts.name, nodes=len(facts.nodes), digest=facts.digest)
    return {"cluster": facts.name, "nodes": len(facts.nodes), "digest": facts.digest}


def _same_accelerators(platform: Platform, nodes: list[str], facts: ClusterFacts) -> None:
    now = {node.id: node for node in facts.nodes}
    for name in nodes:
        if len(now[name].accelerators) != len(platform.node(name).accelerators):
            raise Conflict(
                f"node {name} runs a job and has other accelerators in the new pool",
                do="cancel or requeue its jobs first",
            )


def cordon(platform: Platform, who: Principal, node: str, reason: str) -> dict[str, Any]:
    """Keeps new tasks off a node; what runs there goes on."""
    _set_cordon(platform, who, node, reason, value=True)
    return {"node": node, "cordoned": True, "reason": reason}


def uncordon(platform: Platform, who: Principal, node: str) -> dict[str, Any]:
    """Lets tasks onto a node again."""
    _set_cordon(platform, who, node, "", value=False)
    return {"node": node, "cordoned": False}


def _set_cordon(platform: Platform, who: Principal, node: str, reason: str, *, value: bool) -> None:
    who.must_be_operator()
    if node not in platform.world.pool.index:
        raise NotFound(f"no node {node!r}", do="`aistation pool show` lists them")
    if value:
        platform.cordons[node] = reason
    else:
        platform.cordons.pop(node, None)
    platform.world.pool.set_cordoned(node, value=value)
    platform.batch.nodes[node] = (value, reason)
    platform.note(
        "node", None, who=who.name, node=node, change="cordoned" if value else "uncordoned", reason=reason
    )
    platform.dirty = True
