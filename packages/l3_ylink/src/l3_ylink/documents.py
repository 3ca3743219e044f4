"""`dataset-manifest/v1`, `parallel-plan/v1` and `model-manifest/v1`."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, field_validator

from ._kit.documents import Digest, Document, Part, Reference


class FileEntry(Part):
    """A file, by a path relative to the manifest's folder (never absolute)."""

    uri: str
    sha256: Digest
    bytes: int = Field(ge=0)

    @field_validator("uri")
    @classmethod
    def relative(cls, value: str) -> str:
        if value.startswith("/") or ".." in value.split("/"):
            raise ValueError("must be relative, inside the manifest's folder")
        return value


class Shard(FileEntry):
    """A file of a data set with its rows and, where tokenised, tokens."""

    rows: int = Field(ge=0)
    tokens: int | None = Field(default=None, ge=0)


class StepCount(Part):
    """What a step of the recipe saw, kept and dropped, with the reasons."""

    step: str
    seen: int = Field(ge=0)
    kept: int = Field(ge=0)
    dropped: dict[str, int] = Field(default_factory=dict)
    changed: int = Field(default=0, ge=0)


class Source(Part):
    """Where documents came from and under which licence."""

    name: str
    licence: str
    documents: int = Field(ge=0)
    bytes: int = Field(default=0, ge=0)
    url: str | None = None


class ContaminationCheck(Part):
    """Overlap with evaluation sets: n-gram length, documents hit, items hit."""

    method: str
    against: list[str]
    documents_hit: int = Field(ge=0)
    items_hit: list[str] = Field(default_factory=list)


class DatasetManifest(Document):
    """A data set: shards with digests, how it was made, what was dropped and why."""

    SCHEMA: ClassVar[str] = "ogai.dataset-manifest/v1"

    name: str
    kind: str = Field(description="text, tokens, instructions, preferences …")
    languages: dict[str, int] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict, description="column -> type")
    shards: list[Shard]
    rows: int = Field(ge=0)
    tokens: int | None = Field(default=None, ge=0)
    tokenizer_digest: Digest | None = None
    recipe_digest: Digest
    steps: list[StepCount] = Field(default_factory=list)
    sources: list[Source] = Field(default_factory=list)
    contamination: ContaminationCheck | None = None


class ModelShape(Part):
    """The transformer's shape, in Llama's words."""

    layers: int = Field(ge=1)
    hidden: int = Field(ge=1)
    heads: int = Field(ge=1)
    kv_heads: int = Field(ge=1)
    ffn_hidden: int = Field(ge=1)
    vocabulary: int = Field(ge=1)
    sequence: int = Field(ge=1)
    tied_embeddings: bool = True


class ParallelPlan(Document):
    """How a model is laid out over ranks, and what that is predicted to cost."""

    SCHEMA: ClassVar[str] = "ogai.parallel-plan/v1"

    engine: str = Field(description="deepspeed, megatron, torch …")
    shape: ModelShape
    parameters: int = Field(ge=1)
    world_size: int = Field(ge=1)
    data_parallel: int = Field(ge=1)
    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    zero_stage: int = Field(default=0, ge=0, le=3)
    micro_batch: int = Field(ge=1)
    gradient_accumulation: int = Field(default=1, ge=1)
    global_batch: int = Field(ge=1)
    dtype: str = "float32"
    recompute: str = "none"
    steps: int = Field(ge=1)
    learning_rate: float = Field(gt=0)
    memory_bytes_per_rank: int = Field(ge=0)
    flops_per_step: float = Field(ge=0, description="model FLOPs: forward and backward")
    reasons: list[str] = Field(default_factory=list)


class Training(Part):
    """How the weights came about, by digests of the documents concerned."""

    dataset: Digest | None = None
    plan: Digest | None = None
    job: Digest | None = None
    steps: int | None = None
    metrics: dict[str, float] = Field(default_factory=dict)


class ModelManifest(Document):
    """A model's files (safetensors or GGUF, never pickle) with digests and lineage."""

    SCHEMA: ClassVar[str] = "ogai.model-manifest/v1"

    name: str
    version: str
    type: str = Field(description="causal-lm, adapter, reward, embedding, tokenizer …")
    architecture: str
    parameters: int = Field(ge=0)
    dtype: str
    files: list[FileEntry] = Field(min_length=1)
    tokenizer_digest: Digest | None = None
    licence: str
    base: Reference | None = None
    derived_from: Digest | None = Field(default=None, description="digest of a file it was converted from")
    training: Training | None = None
    languages: list[str] = Field(default_factory=list)
