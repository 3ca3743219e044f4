"""The published interface of YLink.  Names load what they need when they are first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapters.l2_aistation import AistationRunner
    from .backends.local import LocalRunner
    from .datakit.explain import Explanation, explain, whatif
    from .datakit.recipe import Recipe, load_recipe
    from .datakit.run import DataRun, run_recipe
    from .datakit.transform.megatron import TokenFile, write_tokens
    from .documents import DatasetManifest, ModelManifest, ParallelPlan
    from .models.gguf import import_gguf
    from .ports import CheckpointRequest, JobOutcome, JobRequest, JobRunner
    from .settings import Settings
    from .store.shelf import Shelf
    from .trainkit.planning import make_plan, read_shape
    from .trainkit.service import train_pretrain, train_sft
    from .web import create_app

_DATA = {
    "DatasetManifest": "documents",
    "ModelManifest": "documents",
    "ParallelPlan": "documents",
    "Settings": "settings",
    "Shelf": "store.shelf",
    "create_app": "web",
    "Recipe": "datakit.recipe",
    "load_recipe": "datakit.recipe",
    "run_recipe": "datakit.run",
    "DataRun": "datakit.run",
    "explain": "datakit.explain",
    "whatif": "datakit.explain",
    "Explanation": "datakit.explain",
    "TokenFile": "datakit.transform.megatron",
    "write_tokens": "datakit.transform.megatron",
}

# training names: name -> module below l3_ylink
_TRAINING = {
    "AistationRunner": "adapters.l2_aistation",
    "CheckpointRequest": "ports",
    "JobOutcome": "ports",
    "JobRequest": "ports",
    "JobRunner": "ports",
    "LocalRunner": "backends.local",
    "import_gguf": "models.gguf",
    "make_plan": "trainkit.planning",
    "read_shape": "trainkit.planning",
    "train_pretrain": "trainkit.service",
    "train_sft": "trainkit.service",
}

_WHERE = {**_DATA, **_TRAINING}

__all__ = [
    "AistationRunner",
    "CheckpointRequest",
    "DataRun",
    "DatasetManifest",
    "Explanation",
    "JobOutcome",
    "JobRequest",
    "JobRunner",
    "LocalRunner",
    "ModelManifest",
    "ParallelPlan",
    "Recipe",
    "Settings",
    "Shelf",
    "TokenFile",
    "create_app",
    "explain",
    "import_gguf",
    "load_recipe",
    "make_plan",
    "read_shape",
    "run_recipe",
    "train_pretrain",
    "train_sft",
    "whatif",
    "write_tokens",
]


def __getattr__(name: str) -> Any:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"l3_ylink.{where}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
