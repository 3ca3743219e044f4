"""Runs the system's programs: their own words in the error, nothing on a terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence

from l0_infra_os._kit.problems import Failed, Unavailable

ENVIRONMENT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def attempt(command: Sequence[str], *, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a program to its end and gives what it said, whatever its exit status."""
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{ENVIRONMENT_PATH}", "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=environment, check=False
        )
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} is not on this machine") from None


def run(command: Sequence[str], *, stdin: str = "") -> str:
    """Runs a program that must succeed and gives its output."""
    done = attempt(command, stdin=stdin)
    if done.returncode:
        raise Failed(
            f"{' '.join(command[:4])} failed", why=done.stderr.strip() or f"status {done.returncode}"
        )
    return done.stdout


def batch(commands: Iterable[str], *, netns: str | None = None, force: bool = False) -> None:
    """Runs `ip` commands in one process, in a network namespace; `force` goes on after errors."""
    where = ["-n", netns] if netns else []
    command = ["ip", *where, *(["-force"] if force else []), "-batch", "-"]
    done = attempt(command, stdin="\n".join(commands) + "\n")
    if done.returncode and not force:
        raise Failed("the network could not be set up", why=done.stderr.strip())
