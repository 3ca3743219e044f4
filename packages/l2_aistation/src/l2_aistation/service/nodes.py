"""What an operator does with the pool and its queues."""

from __future__ import annotations

import math
from typing import Any

from l2_aistation._kit.problems import BadInput, Conflict, NotFound
from l2_aistation._kit.tokens import NAME, Principal
from l2_aistation.core.pool import ClusterFacts
from l2_aistation.core.world import Queue

from .platform import Platform


def import_pool(platform: Platform, who: Principal, facts: ClusterFacts) -> dict[str, Any]:
    """Takes a cluster in as the pool; refused where it would take a node from under a job."""
    who.must_be_operator()
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


def put_queue(platform: Platform, who: Principal, queue: Queue) -> dict[str, Any]:
    """Adds a queue or changes it."""
    who.must_be_operator()
    if not NAME.match(queue.name):
        raise BadInput(f"{queue.name!r} is not a name", field="name", do="use a-z, 0-9 and '-', 63 at most")
    if queue.weight <= 0 or not math.isfinite(queue.weight):
        raise BadInput("must be more than 0", field="weight")
    limits = (
        ("accelerators", queue.guarantee_accelerators, queue.cap_accelerators),
        ("cpu_cores", queue.guarantee_cpu_cores, queue.cap_cpu_cores),
    )
    for unit, guarantee, cap in limits:
        if guarantee < 0 or (cap is not None and cap < 0):
            raise BadInput(
                "must not be negative", field=f"guarantee_{unit}" if guarantee < 0 else f"cap_{unit}"
            )
        if cap is not None and guarantee > cap:
            raise BadInput(f"guarantee {guarantee:g} is above the cap {cap:g}", field=f"guarantee_{unit}")
    _guarantees_fit(platform, queue)
    before = platform.world.queues.get(queue.name)
    queue.version = 1 if before is None else before.version + 1
    platform.put_queue(queue)
    platform.note(
        "queue",
        None,
        who=who.name,
        name=queue.name,
        guarantee_accelerators=queue.guarantee_accelerators,
        guarantee_cpu_cores=queue.guarantee_cpu_cores,
        cap_accelerators=queue.cap_accelerators,
        cap_cpu_cores=queue.cap_cpu_cores,
        weight=queue.weight,
    )
    return {"queue": queue.name, "version": queue.version}


def _guarantees_fit(platform: Platform, queue: Queue) -> None:
    """All guarantees together must be there, or none is one."""
    totals = platform.world.totals
    others = [item for item in platform.world.queues.values() if item.name != queue.name]
    sums = (
        ("accelerators", sum(item.guarantee_accelerators for item in [*others, queue]), totals.accelerators),
        ("cpu_cores", sum(item.guarantee_cpu_cores for item in [*others, queue]), totals.cpu_milli / 1000),
    )
    for unit, asked, there in sums:
        if asked > there:
            raise BadInput(
                f"all guarantees together would be {asked:g}, the pool has {there:g}",
                field=f"guarantee_{unit}",
                do="lower this guarantee or another queue's",
            )
