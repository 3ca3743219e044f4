"""From a placement to commands: each rank's environment, each node's share."""

from __future__ import annotations

from collections import Counter, defaultdict

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.events import AttendTasks, EndTasks, StartTasks, TaskLaunch, WarmTasks
from l2_aistation.core.world import Job
from l2_aistation.documents import JobSpec, TaskGroup

from .platform import Platform

PREIMPORT = "OGAI_PREIMPORT"


def start_commands(platform: Platform, job: Job, attempt: Attempt) -> list[StartTasks]:
    """One `StartTasks` for each node of the attempt."""
    spec = JobSpec.model_validate_json(job.spec_text)
    launches = _launches(platform, spec, attempt)
    return [
        StartTasks(
            job=job.id,
            attempt=attempt.number,
            node=node,
            tenant=job.tenant,
            world_size=len(attempt.slots),
            tasks=tuple(launches[node]),
            address=platform.node(node).address,
            checkpoint=None if spec.checkpoint is None else spec.checkpoint.path,
            hang_s=spec.limits.heartbeat_s,
        )
        for node in attempt.nodes
    ]


def warm_command(platform: Platform, job: Job, attempt: Attempt, spare: str) -> WarmTasks | None:
    """The order to a spare to get ready, where the job says what to import."""
    spec = JobSpec.model_validate_json(job.spec_text)
    if not any(PREIMPORT in group.environment for group in spec.tasks):
        return None
    tasks = _launches(platform, spec, attempt)[attempt.nodes[0]]
    return WarmTasks(
        job=job.id,
        attempt=attempt.number,
        node=spare,
        tenant=job.tenant,
        world_size=len(attempt.slots),
        tasks=tuple(tasks),
        address=platform.node(spare).address,
        checkpoint=None if spec.checkpoint is None else spec.checkpoint.path,
    )


def end_commands(
    platform: Platform, attempt: Attempt, *, keep_warm: bool, but: frozenset[str] = frozenset()
) -> list[EndTasks]:
    """One `EndTasks` for each node of the attempt."""
    grace = platform.settings.grace_s
    return [
        EndTasks(attempt.job, attempt.number, node, grace_s=grace, keep_warm=keep_warm)
        for node in attempt.nodes
        if node not in but
    ]


def attend_commands(attempt: Attempt) -> list[AttendTasks]:
    """One `AttendTasks` for each node of the attempt."""
    ranks: dict[str, list[int]] = defaultdict(list)
    for slot in attempt.slots:
        ranks[slot.node].append(slot.rank)
    return [AttendTasks(attempt.job, attempt.number, node, tuple(mine)) for node, mine in ranks.items()]


def _launches(platform: Platform, spec: JobSpec, attempt: Attempt) -> dict[str, list[TaskLaunch]]:
    groups = {group.name: group for group in spec.tasks}
    on_node = Counter(slot.node for slot in attempt.slots)
    node_rank = {node: number for number, node in enumerate(attempt.nodes)}
    master = platform.node(attempt.slots[0].node).address
    launches: dict[str, list[TaskLaunch]] = defaultdict(list)
    for slot in attempt.slots:
        group: TaskGroup = groups[slot.task]
        local_rank = len(launches[slot.node])
        environment = {
            **group.environment,
            "RANK": str(slot.rank),
            "WORLD_SIZE": str(len(attempt.slots)),
            "LOCAL_RANK": str(local_rank),
            "LOCAL_WORLD_SIZE": str(on_node[slot.node]),
            "GROUP_RANK": str(node_rank[slot.node]),
            "MASTER_ADDR": master,
            "MASTER_PORT": str(attempt.master_port),
            "OGAI_JOB": attempt.job,
            "OGAI_ATTEMPT": str(attempt.number),
        }
        if slot.accelerators:
            facts = platform.node(slot.node).accelerators
            visible = [facts[place].index for place in slot.accelerators]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, visible))
        launches[slot.node].append(
            TaskLaunch(
                rank=slot.rank,
                local_rank=local_rank,
                task=slot.task,
                command=tuple(group.command),
                environment=environment,
                accelerators=slot.accelerators,
            )
        )
    return launches
