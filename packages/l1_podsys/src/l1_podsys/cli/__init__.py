"""The command line `podsys`."""

from __future__ import annotations

from l1_podsys._kit import logs
from l1_podsys._kit.command_line import run

from . import cluster, tokens, tools  # noqa: F401  (they add their commands)
from .common import app


def main() -> None:
    """Entry point."""
    logs.set_up(level="WARNING")
    run(app)
