"""`job-spec/v1`, what a user asks for, and `job-record/v1`, what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from ._kit.documents import Digest, Document, Part, Reference


def absent(value: object) -> bool:
    """For `exclude_if`: a field added inside v1 that says nothing is not written.

    Documents from before the addition therefore keep their digests.
    """
    return not value


class Resources(Part):
    """What one task needs.  No accelerator model means any.

    A part of one accelerator is asked for by share or by memory, with `accelerators` 1.
    """

    cpu_cores: float = Field(default=1, gt=0)
    memory_bytes: int = Field(default=0, ge=0)
    accelerators: int = Field(default=0, ge=0)
    accelerator_model: str | None = None
    accelerator_models: list[str] = Field(
        default_factory=list, description="any one of these", exclude_if=absent
    )
    accelerator_share: float | None = Field(
        default=None, gt=0, le=1, description="of one accelerator", exclude_if=absent
    )
    accelerator_memory_bytes: int | None = Field(
        default=None, gt=0, description="of one accelerator", exclude_if=absent
    )


class Preset(Part):
    """A launcher that the platform wires up: torchrun, deepspeed, megatron, mpi, hf or notebook.

    The user gives a script and its arguments; ranks, peers and rendezvous come from the placement.
    """

    name: str
    script: str | None = Field(default=None, description="relative to the shared folder")
    arguments: list[str] = Field(default_factory=list)
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="basic hyper-parameters, passed on in the launcher's words"
    )


class TaskGroup(Part):
    """`count` equal tasks.  Rank, peers and rendezvous arrive in their environment."""

    name: str = "worker"
    count: int = Field(default=1, ge=1)
    command: list[str] = Field(
        default_factory=list, min_length=1, description="left out only with a preset", exclude_if=absent
    )
    preset: Preset | None = Field(default=None, exclude_if=absent)
    environment: dict[str, str] = Field(default_factory=dict)
    resources: Resources = Field(default_factory=Resources)
    one_per_node: bool = False

    @model_validator(mode="after")
    def startable(self) -> TaskGroup:
        if not self.command and self.preset is None:
            raise ValueError("needs a command, or a preset")
        if self.command and self.preset is not None:
            raise ValueError("takes a command or a preset, not both")
        return self


class Gang(Part):
    """How many tasks must run together; `max` above `min` makes the job elastic."""

    min: int = Field(ge=1)
    max: int = Field(ge=1)
    unit: int = Field(
        default=1,
        ge=1,
        description="sizes between min and max are multiples of it, as tensor times pipeline parallel ranks",
        exclude_if=lambda unit: unit == 1,
    )

    @model_validator(mode="after")
    def ordered(self) -> Gang:
        if self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        for name in ("min", "max"):
            if getattr(self, name) % self.unit:
                raise ValueError(f"{name} {getattr(self, name)} is no multiple of unit {self.unit}")
        return self


class TopologyPreference(Part):
    """The level (node, rack, leaf, spine, site) that the gang should, or must, stay within."""

    preferred: str | None = "leaf"
    required: str | None = None


class Relation(Part):
    """Jobs of the same tenant that carry these labels, and the level at which to meet or avoid them."""

    labels: dict[str, str] = Field(min_length=1)
    level: str = "node"
    required: bool = True


class PlacementRules(Part):
    """Beyond topology: near which jobs, apart from which, and how far its own tasks spread."""

    near: list[Relation] = Field(default_factory=list)
    apart: list[Relation] = Field(default_factory=list)
    spread_level: str | None = Field(default=None, description="own tasks over domains of this level")
    most_per_domain: int | None = Field(default=None, ge=1)


class Dependency(Part):
    """Another job of the same tenant, and what it must have reached before this one may start."""

    job: str
    condition: Literal["started", "completed", "ended"] = "completed"


class JobArray(Part):
    """`count` like jobs; each finds its number in OGAI_ARRAY_INDEX."""

    count: int = Field(ge=1)
    most_running: int | None = Field(default=None, ge=1)


class IdlePolicy(Part):
    """When an interactive job counts as idle and gives its place back."""

    after_s: float = Field(default=1800, gt=0)
    accelerator_below: float = Field(default=0.05, ge=0, le=1, description="use below this is idle")


class CheckpointPolicy(Part):
    """Where checkpoints lie (relative to the shared folder), how often, how many are kept."""

    path: str
    every_steps: int = Field(ge=1)
    keep: int = Field(default=2, ge=1)


class RestartPolicy(Part):
    """How often an attempt may be replaced after an infrastructure fault."""

    max_attempts: int = Field(default=5, ge=1)
    on_user_error: bool = False
    on_spoilt_loss: Literal["stop", "rollback"] = Field(
        default="stop",
        description="rollback: go on from a checkpoint before a NaN or a spike, and pass over its data",
        exclude_if=lambda choice: choice == "stop",
    )


class Limits(Part):
    """Bounds that the platform enforces.  `expected_s` is a hint and enforced nowhere."""

    time_s: float | None = Field(default=None, gt=0)
    expected_s: float | None = Field(default=None, gt=0, exclude_if=absent)
    heartbeat_s: float | None = Field(default=None, gt=0)


class JobSpec(Document):
    """A gang of tasks to place, start, watch and heal."""

    SCHEMA: ClassVar[str] = "ogai.job-spec/v1"

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    queue: str = "default"
    priority: int = 0
    tasks: list[TaskGroup] = Field(min_length=1)
    gang: Gang | None = Field(default=None, description="None: all tasks together")
    topology: TopologyPreference = Field(default_factory=TopologyPreference)
    placement: PlacementRules | None = Field(default=None, exclude_if=absent)
    labels: dict[str, str] = Field(default_factory=dict, exclude_if=absent)
    depends_on: list[Dependency] = Field(default_factory=list, exclude_if=absent)
    array: JobArray | None = Field(default=None, exclude_if=absent)
    not_before: datetime | None = Field(default=None, exclude_if=absent)
    reservation: str | None = Field(
        default=None, description="runs inside this reservation", exclude_if=absent
    )
    preemptible: bool = Field(
        default=True, description="may be asked to give its place back", exclude_if=bool
    )
    idle: IdlePolicy | None = Field(default=None, description="given back when idle", exclude_if=absent)
    data: list[Digest] = Field(default_factory=list, description="data sets to have near")
    checkpoint: CheckpointPolicy | None = None
    restart: RestartPolicy = Field(default_factory=RestartPolicy)
    limits: Limits = Field(default_factory=Limits)


class PlacedTask(Part):
    """One task's place: global rank, node and the accelerators it was given."""

    task: str
    rank: int = Field(ge=0)
    node: str
    leaf: str
    accelerators: list[int] = Field(default_factory=list)
    accelerator_share: float = Field(default=1, gt=0, le=1, exclude_if=lambda share: share == 1)


class FaultRecord(Part):
    """Why an attempt ended early: label, category, place, evidence lines, action taken."""

    at: datetime
    label: str
    category: str
    node: str | None = None
    rank: int | None = None
    evidence: list[str] = Field(default_factory=list)
    action: str
    confidence: float = Field(default=1, ge=0, le=1)


class AttemptRecord(Part):
    """One try of the gang.  `cause` is completed, failed, cancelled or the fault's label."""

    number: int = Field(ge=1)
    placement: list[PlacedTask]
    started_at: datetime
    ended_at: datetime | None = None
    cause: str | None = None
    first_step: int | None = None
    last_step: int | None = None
    resumed_from: int | None = None
    lost_steps: int = Field(default=0, ge=0)
    replaced: dict[str, str] = Field(default_factory=dict, description="lost node -> spare")


class StepSample(Part):
    """A step as the job reported it."""

    step: int
    at: datetime
    loss: float | None = None


class JobRecord(Document):
    """What became of a job: attempts, faults, final state."""

    SCHEMA: ClassVar[str] = "ogai.job-record/v1"

    job: str
    name: str
    tenant: str
    queue: str
    spec: Reference
    state: str
    submitted_at: datetime
    ended_at: datetime | None = None
    attempts: list[AttemptRecord]
    faults: list[FaultRecord] = Field(default_factory=list)
    steps: list[StepSample] = Field(default_factory=list)
    utilisation: float | None = Field(default=None, ge=0, le=1)
