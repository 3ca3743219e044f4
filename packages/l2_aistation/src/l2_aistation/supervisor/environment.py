"""What a rank finds in its environment beyond what the platform gave: what only the node knows."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import re
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from l2_aistation.core.events import StartTasks, TaskLaunch, WarmTasks

from .processes import MARK

_SECRET = re.compile(r"^OGAI_L\d_|pass(word|wd)?$|secret|token$|api_?key$|credential", re.IGNORECASE)
HOSTFILE = "hostfile"
"""Beside a rank's log on its node; its path is OGAI_HOSTFILE."""

_GET_ADDRESS = 0x8915  # SIOCGIFADDR, <linux/sockios.h>


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a job may inherit: nothing of the platform's settings, nothing secret by name."""
    return {name: value for name, value in environment.items() if not _SECRET.search(name)}


def interface_of(address: str) -> str | None:
    """The network interface that carries an IPv4 address, None where none does."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(address).is_loopback:
            return "lo"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _index, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return None


def memory_of(mark: str) -> Path:
    """Where a job keeps checkpoints in this node's memory: from one attempt to the next, until it is over."""
    return Path("/dev/shm") / f"ogai-{mark}"  # noqa: S108 (a name that nobody guesses; made with mode 0700)


def of_rank(
    start: StartTasks | WarmTasks, task: TaskLaunch, *, shared: Path, steps: Path, mark: str
) -> dict[str, str]:
    """The whole environment of one rank: the node's, ours, and the platform's and user's over it."""
    added = {
        "PYTHONUNBUFFERED": "1",
        "OGAI_SHARED_DIR": str(shared),
        "OGAI_PROGRESS": str(steps),
        "OGAI_NODE": start.node,
        "OGAI_ADDRESS": start.address,
        "OGAI_MEMORY_DIR": str(memory_of(mark)),
        MARK: mark,
    }
    if len(start.tasks) > 1 and "OMP_NUM_THREADS" not in os.environ:
        added["OMP_NUM_THREADS"] = "1"  # as torchrun does: ranks on one node share its cores
    if start.checkpoint is not None:
        added["OGAI_CHECKPOINT_DIR"] = str(shared / start.checkpoint)
    if start.peers:
        added["OGAI_PEERS"] = ",".join(f"{address}:{tasks}" for address, tasks in start.peers)
        added["OGAI_HOSTFILE"] = str(steps.parent / HOSTFILE)
    interface = interface_of(start.address)
    if interface is not None:
        added |= {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    return {**without_secrets(os.environ), **added, **start.environment, **task.environment}


def hostfile_of(start: StartTasks | WarmTasks) -> str:
    """The gang's nodes as Open MPI and DeepSpeed read them."""
    return "".join(f"{address} slots={tasks}\n" for address, tasks in start.peers)
