"""The lab's folder, and the machine-wide register from which another process can clean up."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

from l0_infra_os._kit.files import atomic_write
from l0_infra_os._kit.problems import Unavailable

from .plan import Machine, Plan

REGISTER_VARIABLE = "OGAI_LAB"
"""Every process of a lab has this in its environment, with the lab's id: clean-up finds it by that."""


def make_register() -> None:
    """Makes the register; `Unavailable` when somebody else made it (it is under /tmp for users)."""
    folder = register_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in (folder, folder.parent):
        if path.stat().st_uid != os.geteuid():
            raise Unavailable(
                f"{path} belongs to another user", do="set XDG_RUNTIME_DIR to a folder of your own"
            )


def register_folder() -> Path:
    """Where this user's labs are listed; gone after a reboot, as the labs are."""
    if os.geteuid() == 0:
        return Path("/run/ogai/labs")
    base = os.environ.get("XDG_RUNTIME_DIR")
    return (
        Path(base) / "ogai" / "labs" if base else Path(tempfile.gettempdir()) / f"ogai-{os.getuid()}" / "labs"
    )


@dataclass(frozen=True)
class Credentials:
    """The user and password that all BMCs of a lab take; made anew for each lab."""

    username: str
    password: str


class LabFolder:
    """Paths and files of one lab."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path).resolve()
        self.plan_file = self.path / "lab.json"
        self.credentials_file = self.path / "credentials.json"
        self.password_file = self.path / "password"  # alone, for `infra-os enroll --password-file`
        self.fabric_file = self.path / "fabric.json"
        self.boot_url_file = self.path / "boot-url"
        self.log_file = self.path / "keeper.log"

    def machine(self, machine: Machine) -> Path:
        """The folder of one machine: its disk, its console log, its firmware's files."""
        return self.path / "machines" / machine.name

    def read_plan(self) -> Plan | None:
        """The plan that was written by `up`, None when there is none (any more)."""
        try:
            return Plan.model_validate_json(self.plan_file.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def write_plan(self, plan: Plan) -> None:
        """Writes the plan, and each machine's part of it for its firmware."""
        for machine in plan.machines:
            self.machine(machine).mkdir(parents=True, exist_ok=True)
            atomic_write(self.machine(machine) / "machine.json", machine.model_dump_json(indent=1))
        atomic_write(self.plan_file, plan.model_dump_json(indent=1), mode=0o600)

    def credentials(self) -> Credentials:
        """The BMCs' user and password; made on first use, and kept while the folder lives."""
        try:
            return Credentials(**json.loads(self.credentials_file.read_text("utf-8")))
        except FileNotFoundError:
            made = Credentials("admin", secrets.token_urlsafe(18))
            atomic_write(self.credentials_file, json.dumps(made.__dict__), mode=0o600)
            return made


@dataclass(frozen=True)
class Process:
    """A process, told from a later one with the same number by its start time."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The process with that number, None when there is none or it is a zombie."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return Process.of(self.pid) == self


@dataclass(frozen=True)
class Entry:
    """A lab in the register: where it is and which process answers for it."""

    id: str
    folder: Path
    owner: Process

    @property
    def socket(self) -> Path:
        """The keeper's control socket (short: Unix sockets have 107 bytes for their path)."""
        return register_folder() / self.id / "control"

    def write(self) -> None:
        """Enters the lab, or hands it to another owner."""
        value = {"folder": str(self.folder), "pid": self.owner.pid, "started": self.owner.started}
        make_register()
        atomic_write(register_folder() / self.id / "entry.json", json.dumps(value), mode=0o600)


def read_entry(identity: str) -> Entry | None:
    """The lab with that id, None when it is not in the register."""
    try:
        value = json.loads((register_folder() / identity / "entry.json").read_text("utf-8"))
        return Entry(identity, Path(value["folder"]), Process(value["pid"], value["started"]))
    except (OSError, ValueError, KeyError):
        return None


def registered_ids() -> list[str]:
    """The ids of all labs in the register, dead ones too."""
    try:
        return sorted(path.name for path in register_folder().iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
