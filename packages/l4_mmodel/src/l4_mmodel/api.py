"""The published interface of this layer; importing it loads nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._kit.problems import BadInput, Conflict, Failed, NotFound, Problem, Unauthorized, Unavailable
from .documents import Deployment, EvalReport
from .service import Mmodel, Promotion
from .settings import Settings

if TYPE_CHECKING:
    from .registry.datasets import Dataset
    from .registry.lineage import Lineage
    from .registry.versions import Version
    from .security.keys import Key, NewKey
    from .serving.server import Server
    from .web.app import create_app

__all__ = [
    "BadInput",
    "Conflict",
    "Dataset",
    "Deployment",
    "EvalReport",
    "Failed",
    "Key",
    "Lineage",
    "Mmodel",
    "NewKey",
    "NotFound",
    "Problem",
    "Promotion",
    "Server",
    "Settings",
    "Unauthorized",
    "Unavailable",
    "Version",
    "create_app",
]

_LAZY = {
    "Dataset": "registry.datasets",
    "Key": "security.keys",
    "Lineage": "registry.lineage",
    "NewKey": "security.keys",
    "Server": "serving.server",
    "Version": "registry.versions",
    "create_app": "web.app",
}


def __getattr__(name: str) -> Any:
    """Names whose modules are heavy, loaded when first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"l4_mmodel.{_LAZY[name]}"), name)
