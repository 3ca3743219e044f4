"""The lab: machines that behave as servers do, with their BMCs, switches and faults.

A lab is what an operator, a developer or a test uses where no server room is at hand.  Its BMCs
speak real Redfish, its machines boot over a real network from the real provisioning service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .faults import FAULTS
    from .lab import Lab

__all__ = ["FAULTS", "Lab"]


def __getattr__(name: str) -> Any:
    if name == "Lab":
        from .lab import Lab

        return Lab
    if name == "FAULTS":
        from .faults import FAULTS

        return FAULTS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
