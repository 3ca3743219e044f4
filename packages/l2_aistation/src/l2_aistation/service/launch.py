"""From a placement to commands: each rank's environment, each node's share."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.events import AttendTasks, EndTasks, StartTasks, TaskLaunch, WarmTasks
from l2_aistation.core.pool import Slot
from l2_aistation.core.world import Job
from l2_aistation.documents import JobSpec, TaskGroup
from l2_aistation.launchers import Place, resolve

from .platform import Platform

PREIMPORT = "OGAI_PREIMPORT"


def start_commands(platform: Platform, job: Job, attempt: Attempt) -> list[StartTasks]:
    """One `StartTasks` for each node of the attempt."""
    spec = platform.spec(job)
    launches = _launches(platform, spec, attempt)
    common, peers = _common(platform, job, attempt), _peers(platform, attempt)
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
            environment=common,
            peers=peers,
        )
        for node in attempt.nodes
    ]


def warm_command(platform: Platform, job: Job, attempt: Attempt, spare: str) -> WarmTasks | None:
    """The order to a spare to get ready, where the job says what to import."""
    spec = platform.spec(job)
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
        environment=_common(platform, job, attempt),
        peers=_peers(platform, attempt),
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


def _common(platform: Platform, job: Job, attempt: Attempt) -> dict[str, str]:
    """What every rank of an attempt finds in its environment alike."""
    common = {
        "WORLD_SIZE": str(len(attempt.slots)),
        "MASTER_ADDR": platform.node(attempt.slots[0].node).address,
        "MASTER_PORT": str(attempt.master_port),
        "OGAI_JOB": attempt.job,
        "OGAI_ATTEMPT": str(attempt.number),
    }
    if job.array_index is not None:
        common["OGAI_ARRAY_INDEX"] = str(job.array_index)
    return common


def _peers(platform: Platform, attempt: Attempt) -> tuple[tuple[str, int], ...]:
    """The gang's nodes in the order of the ranks: address and number of tasks."""
    tasks = Counter(slot.node for slot in attempt.slots)
    return tuple((platform.node(node).address, tasks[node]) for node in attempt.nodes)


def _launches(platform: Platform, spec: JobSpec, attempt: Attempt) -> dict[str, list[TaskLaunch]]:
    groups = {group.name: group for group in spec.tasks}
    on_node = Counter(slot.node for slot in attempt.slots)
    node_rank = {node: number for number, node in enumerate(attempt.nodes)}
    master = platform.node(attempt.slots[0].node).address
    launches: dict[str, list[TaskLaunch]] = defaultdict(list)
    for slot in attempt.slots:
        place = Place(
            rank=slot.rank,
            world_size=len(attempt.slots),
            local_rank=len(launches[slot.node]),
            local_world_size=on_node[slot.node],
            node_rank=node_rank[slot.node],
            nodes=len(node_rank),
            master=master,
            port=attempt.master_port,
            job=attempt.job,
            attempt=attempt.number,
            accelerators=len(slot.accelerators),
            checkpoint=None if spec.checkpoint is None else spec.checkpoint.path,
            idle=spec.idle,
        )
        launches[slot.node].append(_task(platform, groups[slot.task], slot, place))
    return launches


def _task(platform: Platform, group: TaskGroup, slot: Slot, place: Place) -> TaskLaunch:
    """A rank's own part: its command, its numbers, its devices."""
    launch = resolve(group, place)
    numbers = {
        "RANK": str(place.rank),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_world_size),
        "GROUP_RANK": str(place.node_rank),
    }
    return TaskLaunch(
        rank=slot.rank,
        local_rank=place.local_rank,
        task=slot.task,
        command=launch.command,
        environment={
            **launch.environment,
            **group.environment,
            **numbers,
            **_devices(platform, slot),
        },
        accelerators=slot.accelerators,
        cpu_milli=round(group.resources.cpu_cores * 1000),
        memory_bytes=group.resources.memory_bytes,
    )


@lru_cache(maxsize=1 << 14)
def _visible(indexes: tuple[int, ...], places: tuple[int, ...]) -> str:
    return ",".join(str(indexes[place]) for place in places)


def _devices(platform: Platform, slot: Slot) -> dict[str, str]:
    """The accelerators that a rank may use, and how much of one where it has only a part.

    CUDA's MPS server, where one runs on the node, holds a part to these bounds (docs.nvidia.com/deploy/mps,
    "Environment Variables"); without it they are an agreement between the programs.
    """
    if not slot.accelerators:
        return {}
    visible = _visible(platform.devices[slot.node], slot.accelerators)
    variables = {"CUDA_VISIBLE_DEVICES": visible}
    if slot.accelerator_milli:
        variables["OGAI_ACCELERATOR_SHARE"] = f"{slot.accelerator_milli / 1000:g}"
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = f"{slot.accelerator_milli / 10:g}"
    if slot.accelerator_bytes:
        variables["OGAI_ACCELERATOR_MEMORY_BYTES"] = str(slot.accelerator_bytes)
        variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={max(slot.accelerator_bytes >> 20, 1)}M"
    return variables
