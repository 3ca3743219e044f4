"""What every request took: counted in memory at once, written to the store in batches."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from sqlalchemy import func, insert, select

from l4_mmodel.serving.limits import WINDOW_S
from l4_mmodel.serving.loops import repeat
from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

FLUSH_S = 0.5
KEPT = 600
"""Requests that live charts show, for each deployment."""

FIRST_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TOKEN_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)


@dataclass
class Entry:
    """One request.  `exact` says that the runtime itself counted the tokens."""

    at: float
    tenant: str
    key: str
    model: str
    status: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    exact: bool = True
    seconds: float = 0.0
    first_token_s: float | None = None


class Ledger:
    """Counts, charts and the table `l4_usage`; metric names are vLLM's."""

    def __init__(self, store: Store, registry: CollectorRegistry) -> None:
        self.store = store
        self.pending: list[Entry] = []
        self.recent: dict[tuple[str, str], deque[Entry]] = {}
        labels = ("model_name",)
        self.requests = Counter(
            "ogai_l4_requests", "Requests by status.", (*labels, "status"), registry=registry
        )
        self.prompt = Counter("ogai_l4_prompt_tokens", "Prompt tokens.", labels, registry=registry)
        self.generated = Counter("ogai_l4_generation_tokens", "Generated tokens.", labels, registry=registry)
        self.first = Histogram(
            "ogai_l4_time_to_first_token_seconds", "Time to first token.", labels, registry=registry,
            buckets=FIRST_BUCKETS,
        )  # fmt: skip
        self.per_token = Histogram(
            "ogai_l4_request_time_per_output_token_seconds", "Mean time of a token after the first.", labels,
            registry=registry, buckets=TOKEN_BUCKETS,
        )  # fmt: skip
        self.whole = Histogram(
            "ogai_l4_e2e_request_latency_seconds", "Time of a request.", labels, registry=registry
        )
        self._children: dict[tuple[str, int], tuple[Any, ...]] = {}

    def add(self, entry: Entry) -> None:
        """Enters a request that has ended."""
        self.pending.append(entry)
        kept = self.recent.get((entry.tenant, entry.model))
        if kept is None:
            kept = self.recent[entry.tenant, entry.model] = deque(maxlen=KEPT)
        kept.append(entry)
        requests, prompt, generated, first, per_token, whole = self._of(entry.model, entry.status)
        requests.inc()
        whole.observe(entry.seconds)
        if entry.status >= 400:
            return
        prompt.inc(entry.prompt_tokens)
        generated.inc(entry.completion_tokens)
        if entry.first_token_s is not None:
            first.observe(entry.first_token_s)
            if entry.completion_tokens > 1:
                per_token.observe((entry.seconds - entry.first_token_s) / (entry.completion_tokens - 1))

    def _of(self, model: str, status: int) -> tuple[Any, ...]:
        found = self._children.get((model, status))
        if found is None:
            plain = (self.prompt, self.generated, self.first, self.per_token, self.whole)
            children = (metric.labels(model) for metric in plain)
            found = self._children[model, status] = (self.requests.labels(model, status), *children)
        return found

    async def run(self) -> None:
        """Writes to the store until cancelled, and a last time then."""
        try:
            await repeat(lambda: asyncio.to_thread(self.flush), FLUSH_S)
        finally:
            self.flush()

    def flush(self) -> None:
        """Writes what is pending; on an error it stays pending."""
        rows, self.pending = self.pending, []
        if not rows:
            return
        try:
            with self.store.change() as connection:
                connection.execute(insert(tables.usage), [vars(row) for row in rows])
        except BaseException:
            self.pending = rows + self.pending
            raise

    def chart(self, tenant: str, model: str) -> list[dict[str, float | int | None]]:
        """The last requests of a deployment, for its live chart (milliseconds)."""
        with contextlib.suppress(KeyError):
            return [
                {
                    "at": entry.at, "status": entry.status, "total_ms": round(entry.seconds * 1000, 2),
                    "first_ms": None if entry.first_token_s is None else round(entry.first_token_s * 1000, 2),
                }
                for entry in self.recent[tenant, model]
                if entry.at > time.time() - 10 * WINDOW_S
            ]  # fmt: skip
        return []


def totals(store: Store, tenant: str | None) -> list[dict[str, Any]]:
    """Requests and tokens by key and model."""
    table = tables.usage
    query = select(
        table.c.tenant, table.c.key, table.c.model, func.count().label("requests"),
        func.sum(table.c.prompt_tokens).label("prompt_tokens"),
        func.sum(table.c.completion_tokens).label("completion_tokens"),
    ).group_by(table.c.tenant, table.c.key, table.c.model)  # fmt: skip
    if tenant is not None:
        query = query.where(table.c.tenant == tenant)
    with store.read() as connection:
        return [dict(row._mapping) for row in connection.execute(query)]
