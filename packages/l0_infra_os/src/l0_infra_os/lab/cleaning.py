"""Removes what a lab has left on the machine, from whatever state it was left in.

Idempotent, and needs nothing of the dead lab but its id: its processes carry the id in their
environment, its namespaces, interfaces and control groups in their names.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import time
from pathlib import Path

from l0_infra_os._kit.problems import Failed

from . import cgroups, network
from .folder import REGISTER_VARIABLE, read_entry, register_folder, registered_ids

PATIENCE_S = 15.0
NAMESPACE = re.compile(r"ogai-([0-9a-f]{6})-\w+")


def sweep(identity: str) -> None:
    """Ends every process of a lab and removes its namespaces, interfaces, groups and register entry."""
    deadline = time.monotonic() + PATIENCE_S
    while pids := processes_of(identity):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise Failed(f"processes of the lab {identity} do not end: {sorted(pids)}")
        time.sleep(0.05)
    if os.geteuid() == 0:
        network.remove(identity)
        cgroups.remove(identity)
        _remove_container_traces(identity)
    shutil.rmtree(register_folder() / identity, ignore_errors=True)


def processes_of(identity: str) -> set[int]:
    """Every process that belongs to a lab, this one left out."""
    found = _by_environment(identity)
    if os.geteuid() == 0:
        found |= set(cgroups.processes(identity))
        for name in network.namespaces():
            if name.startswith(f"ogai-{identity}-"):
                found |= set(network.processes_in(name))
    return found - {os.getpid()}


def known_ids() -> set[str]:
    """The ids of all labs of which anything is there."""
    found = set(registered_ids())
    if os.geteuid() == 0:
        found |= set(cgroups.labs())
        found |= {match[1] for name in network.namespaces() if (match := NAMESPACE.fullmatch(name))}
    return found


def is_alive(identity: str) -> bool:
    """Whether somebody answers for the lab: its keeper, or whoever is bringing it up."""
    entry = read_entry(identity)
    return entry is not None and entry.owner.alive()


def _by_environment(identity: str) -> set[int]:
    mark = f"{REGISTER_VARIABLE}={identity}".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
    return found


def _remove_container_traces(identity: str) -> None:
    """What systemd-nspawn leaves under /run when it is killed."""
    for path in Path("/run/systemd/nspawn").glob(f"*/*ogai-{identity}-*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    for path in Path("/run/systemd/nspawn/locks").glob("inode-*"):
        with contextlib.suppress(OSError), open(path, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held by a container that runs: left alone
            path.unlink()
