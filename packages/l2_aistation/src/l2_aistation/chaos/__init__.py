"""Faults on purpose: what they are, and a run that puts one after the other into a real training."""

from __future__ import annotations

from .faults import FAULTS, Fault
from .run import Result, run

__all__ = ["FAULTS", "Fault", "Result", "run"]
