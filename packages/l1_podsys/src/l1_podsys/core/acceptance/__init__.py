"""Acceptance: which pairs to measure, what a measured value means, and the report that says it."""

from .pairs import rounds
from .report import Measured, build_report
from .verdicts import CHECKS, figure, judge

__all__ = ["CHECKS", "Measured", "build_report", "figure", "judge", "rounds"]
