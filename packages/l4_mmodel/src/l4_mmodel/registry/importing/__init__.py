"""Bringing in models that have no manifest yet: from a folder, a hub, or any place that fsspec reads."""
