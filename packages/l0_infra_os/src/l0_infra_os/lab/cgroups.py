"""A control group for each machine, so that the systemds of several machines do not meet in one.

Needed where this host's own first process is not systemd (a container, a sandbox): nobody else
makes the groups then.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


def hierarchies() -> list[Path]:
    """The hierarchies that systemd uses: cgroup2 alone, or its own named one beside cgroup2."""
    if (MOUNT / "cgroup.controllers").exists():
        return [MOUNT]
    return [path for path in (MOUNT / "systemd", MOUNT / "unified") if (path / "cgroup.procs").exists()]


def make(lab: str, machine: str) -> list[Path]:
    """Makes the machine's group in each hierarchy; a process joins by writing its id there."""
    groups = [hierarchy / f"ogai-{lab}" / machine for hierarchy in hierarchies()]
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
    return [group / "cgroup.procs" for group in groups]


def processes(lab: str, machine: str = "") -> list[int]:
    """Who is in any group of the lab, or of one machine of it."""
    found: list[int] = []
    for hierarchy in hierarchies():
        for file in (hierarchy / f"ogai-{lab}" / machine).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found += [int(line) for line in file.read_text("utf-8").split()]
    return found


def remove(lab: str, machine: str = "") -> None:
    """Removes the groups of a machine or of the whole lab, which must be empty by now."""
    for hierarchy in hierarchies():
        top = hierarchy / f"ogai-{lab}" / machine
        folders = [path for path in top.rglob("*") if path.is_dir()] if top.exists() else []
        for folder in [*sorted(folders, key=lambda path: len(path.parts), reverse=True), top]:
            with contextlib.suppress(OSError):  # not empty yet, or gone: the next removal gets it
                folder.rmdir()


def labs() -> list[str]:
    """The ids of all labs that have groups."""
    return sorted(
        {path.name.removeprefix("ogai-") for hierarchy in hierarchies() for path in hierarchy.glob("ogai-*")}
    )
