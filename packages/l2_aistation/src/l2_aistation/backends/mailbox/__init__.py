"""The engine over a workload manager that owns the nodes: Slurm and Kubernetes share it.

The manager only starts and ends wardens where the platform's placement says, and says which of them
and which nodes are alive.  Commands and events travel through boxes in the shared folder, so what a
warden saw is kept whether or not the platform listens.  All state lies in the boxes and with the
manager: after a kill -9 it is read from there.
"""

from __future__ import annotations

from .engine import MailboxEngine
from .manager import Key, Manager, Ticket

__all__ = ["Key", "MailboxEngine", "Manager", "Ticket"]
