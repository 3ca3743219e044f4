"""Ansible content as package data: one role for each role of a plan, and the modules they share.

A role gets its part of the plan as `podsys.ROLE` (lists of resources by kind) and sets exactly that.
The modules work in batches, because starting Python on the host is most of what a task costs.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def folder() -> Path:
    """Where the roles are; `library` in it holds the modules."""
    return Path(str(files(__name__)))
