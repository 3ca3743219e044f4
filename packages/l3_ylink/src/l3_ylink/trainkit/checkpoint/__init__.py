"""Checkpoints that survive: written aside, checksummed, named `latest` only when durable."""

from .store import Checkpoint, CheckpointStore

__all__ = ["Checkpoint", "CheckpointStore"]
