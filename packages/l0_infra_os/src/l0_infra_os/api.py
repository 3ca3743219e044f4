"""The published interface of this layer.  Heavy parts load when they are used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .documents import Accelerator, Addresses, Disk, InventoryNode, Location, Nic, NodeInventory
    from .infra import InfraOs
    from .lab import Lab
    from .ports import Bmc, Boot, BootOverride, Credentials, Fabric, Image, ImageStore, Management, Segment
    from .service.enrolment import Declared, Enrolled
    from .service.views import LeaseView, NodeView
    from .settings import Settings
    from .web.app import create_app

_PLACES = {
    "Accelerator": "documents",
    "Addresses": "documents",
    "Bmc": "ports",
    "Boot": "ports",
    "BootOverride": "ports",
    "Credentials": "ports",
    "Declared": "service.enrolment",
    "Disk": "documents",
    "Enrolled": "service.enrolment",
    "Fabric": "ports",
    "Image": "ports",
    "ImageStore": "ports",
    "InfraOs": "infra",
    "InventoryNode": "documents",
    "Lab": "lab",
    "LeaseView": "service.views",
    "Location": "documents",
    "Management": "ports",
    "Nic": "documents",
    "NodeInventory": "documents",
    "NodeView": "service.views",
    "Segment": "ports",
    "Settings": "settings",
    "create_app": "web.app",
}

__all__ = [
    "Accelerator",
    "Addresses",
    "Bmc",
    "Boot",
    "BootOverride",
    "Credentials",
    "Declared",
    "Disk",
    "Enrolled",
    "Fabric",
    "Image",
    "ImageStore",
    "InfraOs",
    "InventoryNode",
    "Lab",
    "LeaseView",
    "Location",
    "Management",
    "Nic",
    "NodeInventory",
    "NodeView",
    "Segment",
    "Settings",
    "create_app",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__package__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
