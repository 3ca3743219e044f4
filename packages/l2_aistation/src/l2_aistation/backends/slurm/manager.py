"""Slurm as a manager of wardens, by its commands: sbatch, squeue, sinfo, scancel."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from l2_aistation._kit.files import atomic_write
from l2_aistation._kit.problems import Unavailable
from l2_aistation.backends.mailbox.manager import Key, Ticket
from l2_aistation.core.events import StartTasks
from l2_aistation.supervisor.environment import without_secrets
from l2_aistation.supervisor.mailbox import Box

from . import words

COMMANDS = ("sbatch", "squeue", "sinfo", "scancel")
_LONGEST_S = 60.0


class SlurmManager:
    """Orders are Slurm jobs of one node; their comment says whose they are."""

    name = "slurm"

    def __init__(
        self,
        folder: Path,
        shared: Path,
        *,
        arguments: Sequence[str] = (),
        python: str | None = None,
        heartbeat_s: float = 1.0,
    ) -> None:
        missing = [name for name in COMMANDS if shutil.which(name) is None]
        if missing:
            raise Unavailable(
                "Slurm's commands are not here",
                why=f"{', '.join(missing)} not on PATH",
                do="install slurm-client, and set SLURM_CONF where slurm.conf is elsewhere",
            )
        self._folder, self._shared = folder, shared
        self._arguments, self._python = tuple(arguments), python or sys.executable
        self._heartbeat_s = heartbeat_s
        self._installation = ""

    @property
    def installation(self) -> str:
        """This platform's mark on its orders, made once."""
        if not self._installation:
            path = self._folder / "installation"
            if not path.exists():
                atomic_write(path, secrets.token_hex(4), mode=0o600)
            self._installation = path.read_text(encoding="ascii")
        return self._installation

    def submit(self, start: StartTasks, box: Box) -> None:
        """One Slurm job on exactly the start's node."""
        output = box.path / f"{start.attempt}.warden.log"
        command = [self._python, "-P", "-m", "l2_aistation.supervisor.warden", "--box", str(box.path)]
        command += ["--attempt", str(start.attempt), "--shared", str(self._shared)]
        command += ["--heartbeat", str(self._heartbeat_s)]
        call(
            "sbatch",
            *words.submission(start, self.installation, output, self._arguments),
            text=words.script(command),
        )

    def tickets(self) -> Mapping[Key, Ticket]:
        """Our jobs that slurmctld remembers."""
        return words.tickets(ask("squeue", "--states=all"), self.installation)

    def tend(self) -> None:
        """slurmctld works by itself: only asks whether it is there."""
        call("sinfo", "--noheader", "--format=%P")

    def cancel(self, ids: Iterable[str]) -> None:
        """scancel: SIGTERM, then SIGKILL after Slurm's KillWait."""
        call("scancel", "--quiet", *ids)

    def nodes(self) -> Mapping[str, str]:
        """The nodes that slurmctld hears and that may work."""
        return words.nodes(ask("sinfo"))

    def unfit(self, start: StartTasks) -> str:
        """Slurm shares one device between jobs only by plug-ins that differ from site to site."""
        if any("OGAI_ACCELERATOR_SHARE" in task.environment for task in start.tasks):
            return "parts of an accelerator are not offered on this engine; ask for whole ones"
        return ""


def ask(*command: str) -> Mapping[str, Any]:
    """What a command of Slurm's answers in JSON."""
    answer: Mapping[str, Any] = json.loads(call(*command, "--json"))
    return answer


def call(program: str, *arguments: str, text: str = "") -> str:
    """What a command of Slurm's prints; `Unavailable` with its words where it fails or is not there."""
    try:
        done = subprocess.run(
            [program, *arguments],
            input=text,
            env=without_secrets(os.environ),
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{program} cannot be run", why=str(error)) from error
    if done.returncode != 0:
        why = done.stderr.strip()[-500:] or f"code {done.returncode}"
        raise Unavailable(f"{program} failed", why=why)
    return done.stdout
