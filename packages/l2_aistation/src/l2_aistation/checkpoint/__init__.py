"""Checkpoints that any loop calls: in memory outside the trainer, replicated, written in the background.

    from l2_aistation.checkpoint import Checkpointer
    keeper = Checkpointer(folder)
    start = keeper.restore()                    # None, or the newest step that every rank has
    for step in range(start.step + 1 if start else 0, last):
        train(step)
        if keeper.due(step):
            keeper.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    keeper.close()

A save is one copy into memory that outlives the trainer; a process of its own makes it durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .keeper import Checkpointer, Restored
    from .sampler import ResumableSampler

__all__ = ["Checkpointer", "Restored", "ResumableSampler"]

_PLACES = {"Checkpointer": "keeper", "ResumableSampler": "sampler", "Restored": "keeper"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _PLACES:
        return getattr(import_module(f".{_PLACES[name]}", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
