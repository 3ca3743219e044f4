"""What this layer asks of layers below; `adapters/` satisfies it, each from one of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class ModelSource(Protocol):
    """Makes a model of another form into a folder with a `model-manifest/v1`."""

    def fetch(self, source: Path, into: Path, *, name: str | None) -> Path:
        """Writes the model of `source` into the folder `into`; returns the manifest's path."""
        ...


class JobRunner(Protocol):
    """Runs a program to its end somewhere: an evaluation can be a job of the platform."""

    def run(self, name: str, command: Sequence[str], environment: dict[str, str]) -> str:
        """Runs `command` with `environment` added; returns the job's id, raises `Failed` if it failed."""
        ...
