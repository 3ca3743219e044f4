"""`eval-report/v1` and `deployment/v1`."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from pydantic import Field

from ._kit.documents import Digest, Document, Part, Reference


class MetricValue(Part):
    """A metric with its number of items and a confidence interval."""

    name: str
    task: str
    value: float
    n: int = Field(ge=0)
    low: float
    high: float
    confidence: float = Field(default=0.95, gt=0, lt=1)
    method: str = Field(description="how the interval was made: wilson, bootstrap …")
    unit: str = ""
    standard_error: float | None = Field(default=None, ge=0, description="clustered where items are")


class LatencySummary(Part):
    """Percentiles over requests, in milliseconds."""

    name: str
    requests: int = Field(ge=0)
    p50_ms: float
    p90_ms: float
    p99_ms: float
    mean_ms: float
    tokens_per_s: float | None = None


class StabilityRun(Part):
    """Repeats of the same requests: share of equal answers, spread of accuracy, errors."""

    repeats: int = Field(ge=1)
    temperature: float
    seeds: list[int]
    equal_answers: float = Field(ge=0, le=1)
    accuracy_stddev: float | None = None
    error_rate: float = Field(ge=0, le=1)


class PairedComparison(Part):
    """Two models on the same items: difference, interval and p-value of a paired test."""

    baseline: Reference
    task: str
    difference: float
    low: float
    high: float
    p_value: float = Field(ge=0, le=1)
    test: str


class Item(Part):
    """One item as it was scored."""

    task: str
    item: str
    prompt_sha256: Digest
    answer: str
    expected: str
    correct: bool
    latency_ms: float | None = None


class EvalReport(Document):
    """A model measured on a suite: accuracy, latency and stability with their uncertainty."""

    SCHEMA: ClassVar[str] = "ogai.eval-report/v1"

    model: Reference
    model_name: str
    suite: str
    suite_version: str
    suite_digest: Digest
    runtime: str
    started_at: datetime
    ended_at: datetime
    seed: int
    metrics: list[MetricValue]
    latency: list[LatencySummary] = Field(default_factory=list)
    stability: StabilityRun | None = None
    comparisons: list[PairedComparison] = Field(default_factory=list)
    items: list[Item] = Field(default_factory=list)


class Endpoint(Part):
    """Where a deployment answers."""

    url: str
    protocol: str = "openai"


class Deployment(Document):
    """A model version that is served, and why it was chosen."""

    SCHEMA: ClassVar[str] = "ogai.deployment/v1"

    name: str
    tenant: str
    model: Reference
    model_name: str
    model_version: str
    runtime: str
    replicas: int = Field(default=1, ge=1)
    endpoint: Endpoint
    state: str
    created_at: datetime
    reason: str = ""
    evaluation: Reference | None = None
