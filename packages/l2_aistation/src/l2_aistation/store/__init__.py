"""What survives a restart: jobs, attempts, steps, faults, queues, nodes and the log."""

from .store import Store

__all__ = ["Store"]
