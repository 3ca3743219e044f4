"""`aistation agent`: a node's side of the engine `agent`."""

from __future__ import annotations

from .node import run

__all__ = ["run"]
