"""Engines behind the ports."""
