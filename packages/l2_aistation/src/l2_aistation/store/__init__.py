"""What survives a restart: jobs, attempts, steps, faults, queues, nodes and the log."""

from .batch import Batch
from .store import Store

__all__ = ["Batch", "Store"]
