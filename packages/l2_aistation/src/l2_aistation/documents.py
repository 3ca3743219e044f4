"""`job-spec/v1`, what a user asks for, and `job-record/v1`, what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field, model_validator

from ._kit.documents import Digest, Document, Part, Reference


class Resources(Part):
    """What one task needs.  `accelerator_model` None means any."""

    cpu_cores: float = Field(default=1, gt=0)
    memory_bytes: int = Field(default=0, ge=0)
    accelerators: int = Field(default=0, ge=0)
    accelerator_model: str | None = None


class TaskGroup(Part):
    """`count` equal tasks.  Rank, peers and rendezvous arrive in their environment."""

    name: str = "worker"
    count: int = Field(default=1, ge=1)
    command: list[str] = Field(min_length=1)
    environment: dict[str, str] = Field(default_factory=dict)
    resources: Resources = Field(default_factory=Resources)
    one_per_node: bool = False


class Gang(Part):
    """How many tasks must run together; `max` above `min` makes the job elastic."""

    min: int = Field(ge=1)
    max: int = Field(ge=1)

    @model_validator(mode="after")
    def ordered(self) -> Gang:
        if self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self


class TopologyPreference(Part):
    """The level (node, rack, leaf, spine, site) that the gang should, or must, stay within."""

    preferred: str | None = "leaf"
    required: str | None = None


class CheckpointPolicy(Part):
    """Where checkpoints lie (relative to the shared folder), how often, how many are kept."""

    path: str
    every_steps: int = Field(ge=1)
    keep: int = Field(default=2, ge=1)


class RestartPolicy(Part):
    """How often an attempt may be replaced after an infrastructure fault."""

    max_attempts: int = Field(default=5, ge=1)
    on_user_error: bool = False


class Limits(Part):
    """Bounds that the platform enforces."""

    time_s: float | None = Field(default=None, gt=0)
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
