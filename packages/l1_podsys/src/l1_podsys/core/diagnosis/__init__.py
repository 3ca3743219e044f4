"""Diagnosis: texts in (logs, outputs of tools), findings out. Pure; no device is needed."""

from .engine import diagnose
from .model import Evidence, Finding, Texts

__all__ = ["Evidence", "Finding", "Texts", "diagnose"]
