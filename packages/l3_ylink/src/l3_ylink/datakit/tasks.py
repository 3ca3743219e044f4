"""The tasks that a worker can do, by name.  A task is idempotent: done twice, it leaves the same files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from l3_ylink._kit.files import atomic_write

from .measure import measure_block
from .plan import RunPlan
from .transform.tokens import tokenise_part


def measure(plan: RunPlan, task: dict[str, Any]) -> dict[str, Any]:
    """Measures and commits one block, part by part."""
    plan.prepare()
    block = plan.blocks[task["block"]]
    mark = plan.folder / f".reading-{block.number}"
    careful = bool(task.get("careful"))
    parts = measure_block(
        plan.recipe,
        plan.input,
        plan.store,
        block,
        plan.block_key(block),
        skip=frozenset(task.get("skip", ())),
        reading=(lambda path: atomic_write(mark, path)) if careful else (lambda _: None),
    )
    mark.unlink(missing_ok=True)
    return {"number": block.number, "parts": len(parts), "rows": sum(part.rows for part in parts)}


def tokenise(plan: RunPlan, task: dict[str, Any]) -> dict[str, Any]:
    """Turns one shard of kept text into a part of the token file."""
    return tokenise_part(plan.folder, task["block"], task["text"], task["key"])


TASKS: dict[str, Callable[[RunPlan, dict[str, Any]], dict[str, Any]]] = {
    "measure": measure,
    "tokenise": tokenise,
}
