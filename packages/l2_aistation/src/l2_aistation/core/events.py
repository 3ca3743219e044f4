"""What passes between the platform and an engine: commands one way, events the other.

Both are delivered at least once and in any order between nodes, so both are idempotent: every one
names its job and attempt, and whoever knows a later attempt ignores it.  Times are seconds since
the epoch (UTC).  `to_wire` and `from_wire` are the JSON form that travels and that the log keeps.
Nobody changes one once it is made; those that a gang has a thousand of are not frozen all the same,
which would make each of them cost three times as much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(slots=True)
class TaskLaunch:
    """One rank as a node starts it.

    `environment` is complete but for what only the node knows: OGAI_SHARED_DIR, OGAI_PROGRESS,
    OGAI_CHECKPOINT_DIR and GLOO_SOCKET_IFNAME (the interface that carries `StartTasks.address`).
    The working folder of a task is the shared folder.
    """

    rank: int
    local_rank: int
    task: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    accelerators: tuple[int, ...] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0


@dataclass(slots=True)
class StartTasks:
    """Start these ranks of an attempt on a node; a no-op where the attempt is known already.

    `checkpoint` is relative to the shared folder.  `hang_s` None: learn it from the job's steps.
    `environment` is common to the node's ranks; a rank's own goes over it.  `peers` are the gang's
    nodes in the order of the ranks: address and number of tasks.
    """

    job: str
    attempt: int
    node: str
    tenant: str
    world_size: int
    tasks: tuple[TaskLaunch, ...]
    address: str = "127.0.0.1"
    checkpoint: str | None = None
    hang_s: float | None = None
    environment: dict[str, str] = field(default_factory=dict)
    peers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WarmTasks:
    """Get ready to start such tasks (imports done, nothing run): sent to a spare.

    The names of what to import come from the tasks' environment, OGAI_PREIMPORT.
    """

    job: str
    attempt: int
    node: str
    tenant: str
    world_size: int
    tasks: tuple[TaskLaunch, ...]
    address: str = "127.0.0.1"
    checkpoint: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    peers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class EndTasks:
    """End an attempt's ranks on a node: SIGTERM, `grace_s`, SIGKILL; then `TasksEnded`.

    With `keep_warm` the supervisor and its fork server stay for the next attempt (HELD).
    """

    job: str
    attempt: int
    node: str
    grace_s: float = 10.0
    keep_warm: bool = False


@dataclass(frozen=True, slots=True)
class AttendTasks:
    """Report the state of these ranks again; one that is unknown here is reported as lost.

    Sent after a restart of the platform: it never starts anything.
    """

    job: str
    attempt: int
    node: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a node says of itself: the data sets on its own disks (digests), links that carry less than
    they did, and other faults in words."""

    data: tuple[str, ...] = ()
    weak_links: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Mapping[str, Any] | None) -> Condition | None:
        """From its JSON form; unknown members (of a newer version) are dropped."""
        if value is None:
            return None
        known = {entry.name for entry in fields(cls)}
        return cls(**{name: tuple(map(str, item)) for name, item in value.items() if name in known})


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A heartbeat: the node lives, and these (job, attempt) pairs have ranks on it.

    `condition` None says nothing new about the node.
    """

    node: str
    at: float
    boot_id: str = ""
    attempts: tuple[tuple[str, int], ...] = ()
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A rank's process runs."""

    job: str
    attempt: int
    node: str
    rank: int
    at: float
    pid: int = 0


@dataclass(frozen=True, slots=True)
class TaskExited:
    """A rank's process ended by itself: `code`, or the `signal` that killed it.

    `lost` says that the node does not know the process (it was restarted).  `tail` holds the last
    lines of its log.
    """

    job: str
    attempt: int
    node: str
    rank: int
    at: float
    code: int | None = None
    signal: int | None = None
    lost: bool = False
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TasksEnded:
    """No process of the attempt is left on the node: the answer to `EndTasks`."""

    job: str
    attempt: int
    node: str
    at: float


@dataclass(frozen=True, slots=True)
class TaskStalled:
    """The supervisor saw a rank misbehave while alive; `kind` is hang, slow, nan, spike, disk or memory."""

    job: str
    attempt: int
    node: str
    rank: int
    at: float
    kind: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepReported:
    """The job reported a step through the progress SDK (rank 0's are kept, all ranks' are watched)."""

    job: str
    attempt: int
    node: str
    rank: int
    step: int
    at: float
    loss: float | None = None
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A checkpoint of `step` is durable (said by the job through the SDK)."""

    job: str
    attempt: int
    node: str
    rank: int
    step: int
    at: float


@dataclass(frozen=True, slots=True)
class Resumed:
    """The job says that it loaded the checkpoint of `step` and goes on after it."""

    job: str
    attempt: int
    node: str
    rank: int
    step: int
    at: float


Command = StartTasks | WarmTasks | EndTasks | AttendTasks
Event = (
    NodeSeen | TaskStarted | TaskExited | TasksEnded | TaskStalled | StepReported | CheckpointSaved | Resumed
)

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        StartTasks,
        WarmTasks,
        EndTasks,
        AttendTasks,
        NodeSeen,
        TaskStarted,
        TaskExited,
        TasksEnded,
        TaskStalled,
        StepReported,
        CheckpointSaved,
        Resumed,
    )
}


def to_wire(message: Command | Event) -> dict[str, Any]:
    """The JSON value of a command or event, its name under `kind_`."""
    return {"kind_": type(message).__name__, **asdict(message)}


def from_wire(value: dict[str, Any]) -> Any:
    """The command or event that `to_wire` wrote; unknown members (of a newer version) are dropped."""
    members = dict(value)
    kind = KINDS[members.pop("kind_")]
    known = {entry.name for entry in fields(kind)}
    arguments = {name: _frozen(item) for name, item in members.items() if name in known}
    if kind in (StartTasks, WarmTasks):
        arguments["tasks"] = tuple(_launch(task) for task in members["tasks"])
    if kind is NodeSeen:
        arguments["condition"] = Condition.of(members.get("condition"))
    return kind(**arguments)


def _launch(value: dict[str, Any]) -> TaskLaunch:
    known = {entry.name for entry in fields(TaskLaunch)}
    return TaskLaunch(**{name: _frozen(item) for name, item in value.items() if name in known})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value
