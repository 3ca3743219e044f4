"""The tasks that a worker can do, by name.  A task is idempotent: done twice, it leaves the same files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from l3_ylink._kit.files import atomic_write

from .cost.ledger import Ledger, StepClock
from .measure import measure_block
from .plan import RunPlan
from .transform.tokens import tokenise_part


def measure(plan: RunPlan, task: dict[str, Any]) -> dict[str, Any]:
    """Measures and commits one block, part by part."""
    plan.prepare()
    block = plan.blocks[task["block"]]
    mark = plan.folder / f".reading-{block.number}"
    careful = bool(task.get("careful"))
    key = plan.block_key(block)
    fresh = not plan.store.committed(block.number, key)
    clock = StepClock()
    parts = measure_block(
        plan.recipe,
        plan.input,
        plan.store,
        block,
        key,
        skip=frozenset(task.get("skip", ())),
        reading=(lambda path: atomic_write(mark, path)) if careful else (lambda _: None),
        clock=clock,
    )
    mark.unlink(missing_ok=True)
    if fresh:  # what another attempt had done of it is not known
        Ledger(plan.folder).task("measure", block.number, block.bytes, clock)
    return {"number": block.number, "parts": len(parts), "rows": sum(part.rows for part in parts)}


def tokenise(plan: RunPlan, task: dict[str, Any]) -> dict[str, Any]:
    """Turns one shard of kept text into a part of the token file."""
    clock = StepClock()
    with clock("tokenise"):
        done = tokenise_part(plan.folder, task["block"], task["text"], task["key"])
    Ledger(plan.folder).task("tokens", task["block"], 0, clock)
    return done


TASKS: dict[str, Callable[[RunPlan, dict[str, Any]], dict[str, Any]]] = {
    "measure": measure,
    "tokenise": tokenise,
}
