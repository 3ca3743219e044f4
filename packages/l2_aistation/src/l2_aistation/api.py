"""The published interface of this layer.  Heavy parts are loaded when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._kit.problems import BadInput, Conflict, Failed, NotFound, Problem, Unavailable
from .documents import (
    AttemptRecord,
    CheckpointPolicy,
    FaultRecord,
    Gang,
    JobRecord,
    JobSpec,
    Limits,
    PlacedTask,
    Resources,
    RestartPolicy,
    StepSample,
    TaskGroup,
    TopologyPreference,
)

if TYPE_CHECKING:
    from . import progress
    from .client import Aistation
    from .log_files import diagnose
    from .service import Service
    from .settings import Settings
    from .web import create_app

_LAZY = {
    "Aistation": "client",
    "Service": "service",
    "Settings": "settings",
    "create_app": "web",
    "diagnose": "log_files",
}

__all__ = [
    "Aistation",
    "AttemptRecord",
    "BadInput",
    "CheckpointPolicy",
    "Conflict",
    "Failed",
    "FaultRecord",
    "Gang",
    "JobRecord",
    "JobSpec",
    "Limits",
    "NotFound",
    "PlacedTask",
    "Problem",
    "Resources",
    "RestartPolicy",
    "Service",
    "Settings",
    "StepSample",
    "TaskGroup",
    "TopologyPreference",
    "Unavailable",
    "create_app",
    "diagnose",
    "progress",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "progress":
        return import_module(".progress", __package__)
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
