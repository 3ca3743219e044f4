"""The engine `slurm`: Slurm's own commands start our wardens where our placement says.

Node ids are Slurm's node names.  Slurm decides nothing but which devices of the node a job gets; a
partition that only the platform submits to keeps it from waiting behind others.
"""

from __future__ import annotations

from l2_aistation.backends.mailbox import MailboxEngine
from l2_aistation.settings import Settings

from .cluster import SlurmCluster
from .manager import SlurmManager


def create(settings: Settings) -> MailboxEngine:
    """The engine with the settings' Slurm; `Unavailable` where its commands are not installed."""
    root = settings.shared / ".aistation.slurm"
    manager = SlurmManager(
        root,
        settings.shared,
        arguments=settings.slurm_arguments,
        python=settings.node_python,
        heartbeat_s=settings.heartbeat_s,
    )
    return MailboxEngine(manager, root / "nodes", heartbeat_s=settings.heartbeat_s)


__all__ = ["SlurmCluster", "SlurmManager", "create"]
