"""The published interface of podsys: everything that other packages and scripts may import.

Names are loaded when they are first used, so that importing this module costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._kit.problems import BadInput, Conflict, Failed, NotFound, Problem, Unavailable
    from .backends.bundle import BundleIndex
    from .backends.folders import Run
    from .core.compatibility import Explanation, Stack, check_stack, solve
    from .core.diagnosis import Finding, diagnose
    from .core.facts import Facts
    from .core.inventory import Host, Inventory
    from .core.planning import Change, HostPlan, PairState, Plan, Profile
    from .documents import CheckResult, ClusterReport, ReportNode, TopologyNode
    from .service import Podsys
    from .settings import Settings
    from .web import create_app

_PLACES = {
    "._kit.problems": ("BadInput", "Conflict", "Failed", "NotFound", "Problem", "Unavailable"),
    ".backends.bundle": ("BundleIndex",),
    ".backends.folders": ("Run",),
    ".core.compatibility": ("Explanation", "Stack", "check_stack", "solve"),
    ".core.diagnosis": ("Finding", "diagnose"),
    ".core.facts": ("Facts",),
    ".core.inventory": ("Host", "Inventory"),
    ".core.planning": ("Change", "HostPlan", "PairState", "Plan", "Profile"),
    ".documents": ("CheckResult", "ClusterReport", "ReportNode", "TopologyNode"),
    ".service": ("Podsys",),
    ".settings": ("Settings",),
    ".web": ("create_app",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "BadInput",
    "BundleIndex",
    "Change",
    "CheckResult",
    "ClusterReport",
    "Conflict",
    "Explanation",
    "Facts",
    "Failed",
    "Finding",
    "Host",
    "HostPlan",
    "Inventory",
    "NotFound",
    "PairState",
    "Plan",
    "Podsys",
    "Problem",
    "Profile",
    "ReportNode",
    "Run",
    "Settings",
    "Stack",
    "TopologyNode",
    "Unavailable",
    "check_stack",
    "create_app",
    "diagnose",
    "solve",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name], __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
