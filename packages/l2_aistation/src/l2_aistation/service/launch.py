"""From a placement to commands: each rank's environment, each node's share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.events import AttendTasks, EndTasks, StartTasks, TaskLaunch, WarmTasks
from l2_aistation.core.pool import Slot
from l2_aistation.core.world import Job
from l2_aistation.documents import JobSpec, TaskGroup
from l2_aistation.launchers import Place, resolve

from .platform import Platform

PREIMPORT = "OGAI_PREIMPORT"


@dataclass(slots=True)
class Gang:
    """What the commands of one attempt share, looked up once."""

    spec: JobSpec
    attempt: Attempt
    ranks: dict[str, list[Slot]]
    """The slots of each node; nodes in the order of the ranks."""
    address: dict[str, str]
    environment: dict[str, str]
    """What every rank finds alike."""
    peers: tuple[tuple[str, int], ...]
    """The gang's nodes in the order of the ranks: address and number of tasks."""

    @classmethod
    def of(cls, platform: Platform, job: Job, attempt: Attempt) -> Gang:
        """The gang of an attempt."""
        ranks: dict[str, list[Slot]] = {}
        for slot in attempt.slots:
            mine = ranks.get(slot.node)
            if mine is None:
                ranks[slot.node] = [slot]
            else:
                mine.append(slot)
        address = {node: platform.node(node).address for node in ranks}
        environment = {
            "WORLD_SIZE": str(len(attempt.slots)),
            "MASTER_ADDR": address[attempt.slots[0].node],
            "MASTER_PORT": str(attempt.master_port),
            "OGAI_JOB": attempt.job,
            "OGAI_ATTEMPT": str(attempt.number),
        }
        if attempt.rollback is not None:
            step, skip = attempt.rollback
            environment |= {"OGAI_ROLLBACK_STEP": str(step), "OGAI_SKIP_STEPS": str(skip)}
        if job.array_index is not None:
            environment["OGAI_ARRAY_INDEX"] = str(job.array_index)
        peers = tuple([(address[node], len(mine)) for node, mine in ranks.items()])
        return cls(platform.spec(job), attempt, ranks, address, environment, peers)

    @property
    def checkpoint(self) -> str | None:
        """Where the job's checkpoints lie in the shared folder."""
        return None if self.spec.checkpoint is None else self.spec.checkpoint.path


def start_commands(platform: Platform, job: Job, attempt: Attempt) -> list[StartTasks]:
    """One `StartTasks` for each node of the attempt."""
    gang = Gang.of(platform, job, attempt)
    world_size, checkpoint, hang_s = len(attempt.slots), gang.checkpoint, gang.spec.limits.heartbeat_s
    return [
        StartTasks(
            job.id,
            attempt.number,
            node,
            job.tenant,
            world_size,
            tasks,
            gang.address[node],
            checkpoint,
            hang_s,
            gang.environment,
            gang.peers,
        )
        for node, tasks in zip(gang.ranks, _launches(platform, gang), strict=True)
    ]


def warm_command(platform: Platform, job: Job, attempt: Attempt, spare: str) -> WarmTasks | None:
    """The order to a spare to get ready, where the job says what to import."""
    if not any(PREIMPORT in group.environment for group in platform.spec(job).tasks):
        return None
    gang = Gang.of(platform, job, attempt)
    return WarmTasks(
        job=job.id,
        attempt=attempt.number,
        node=spare,
        tenant=job.tenant,
        world_size=len(attempt.slots),
        tasks=next(_launches(platform, gang)),
        address=platform.node(spare).address,
        checkpoint=gang.checkpoint,
        environment=gang.environment,
        peers=gang.peers,
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


def _launches(platform: Platform, gang: Gang) -> Iterator[tuple[TaskLaunch, ...]]:
    """The ranks of each node, node by node."""
    groups = {group.name: _Group(group) for group in gang.spec.tasks}
    for node_rank, (node, slots) in enumerate(gang.ranks.items()):
        yield tuple(
            [
                groups[slot.task].launch(
                    gang, slot, _devices(platform.devices[node], slot), (local_rank, len(slots), node_rank)
                )
                for local_rank, slot in enumerate(slots)
            ]
        )


class _Group:
    """What the tasks of a group have in common."""

    __slots__ = ("command", "cpu_milli", "group", "memory_bytes")

    def __init__(self, group: TaskGroup) -> None:
        self.group = group
        self.command = tuple(group.command)
        self.cpu_milli = round(group.resources.cpu_cores * 1000)
        self.memory_bytes = group.resources.memory_bytes

    def launch(
        self, gang: Gang, slot: Slot, devices: Mapping[str, str], ranks: tuple[int, int, int]
    ) -> TaskLaunch:
        """A rank's own part: its command, its numbers (within its node, of the node), its devices."""
        local_rank, local_world_size, node_rank = ranks
        command, environment = self.command, self.group.environment
        if self.group.preset is not None:
            made = resolve(self.group, _place(gang, slot, ranks))
            command, environment = made.command, {**made.environment, **environment}
        return TaskLaunch(
            slot.rank,
            local_rank,
            slot.task,
            command,
            {
                **environment,
                "RANK": str(slot.rank),
                "LOCAL_RANK": str(local_rank),
                "LOCAL_WORLD_SIZE": str(local_world_size),
                "GROUP_RANK": str(node_rank),
                **devices,
            },
            slot.accelerators,
            self.cpu_milli,
            self.memory_bytes,
        )


def _place(gang: Gang, slot: Slot, ranks: tuple[int, int, int]) -> Place:
    """What a launcher is told of a rank."""
    local_rank, local_world_size, node_rank = ranks
    return Place(
        rank=slot.rank,
        world_size=len(gang.attempt.slots),
        local_rank=local_rank,
        local_world_size=local_world_size,
        node_rank=node_rank,
        nodes=len(gang.ranks),
        master=gang.environment["MASTER_ADDR"],
        port=gang.attempt.master_port,
        job=gang.attempt.job,
        attempt=gang.attempt.number,
        accelerators=len(slot.accelerators),
        checkpoint=gang.checkpoint,
        idle=gang.spec.idle,
    )


@lru_cache(maxsize=1 << 14)
def _visible(indexes: tuple[int, ...], places: tuple[int, ...]) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(indexes[place]) for place in places)}


def _devices(indexes: tuple[int, ...], slot: Slot) -> Mapping[str, str]:
    """The accelerators that a rank may use, and how much of one where it has only a part.

    CUDA's MPS server, where one runs on the node, holds a part to these bounds (docs.nvidia.com/deploy/mps,
    "Environment Variables"); without it they are an agreement between the programs.
    """
    if not slot.accelerators:
        return {}
    visible = _visible(indexes, slot.accelerators)
    if not (slot.accelerator_milli or slot.accelerator_bytes):
        return visible
    variables = dict(visible)
    if slot.accelerator_milli:
        variables["OGAI_ACCELERATOR_SHARE"] = f"{slot.accelerator_milli / 1000:g}"
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = f"{slot.accelerator_milli / 10:g}"
    if slot.accelerator_bytes:
        variables["OGAI_ACCELERATOR_MEMORY_BYTES"] = str(slot.accelerator_bytes)
        variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={max(slot.accelerator_bytes >> 20, 1)}M"
    return variables
