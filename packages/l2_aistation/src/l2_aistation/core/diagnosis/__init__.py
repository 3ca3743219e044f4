"""Why an attempt ended: rules over what ranks, kernels and supervisors say.  Pure, no model behind it."""

from __future__ import annotations

from .scan import Stream
from .verdict import Diagnosis, diagnose_lines, name_cause, only_consequences
from .vocabulary import LABELS, Label

__all__ = ["LABELS", "Diagnosis", "Label", "Stream", "diagnose_lines", "name_cause", "only_consequences"]
