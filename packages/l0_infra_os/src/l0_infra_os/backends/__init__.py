"""Engines and devices behind our ports."""
