"""The funnel report: one HTML file, in English and Chinese, that needs nothing beside it."""

from __future__ import annotations

from .page import write_report
from .waterfall import WIDTH, Bar, waterfall

__all__ = ["WIDTH", "Bar", "waterfall", "write_report"]
