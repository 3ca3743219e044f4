"""Running programs that a model wrote: in bubblewrap, without network, files, or much of anything.

A program sees the system's libraries and Python read-only, an empty /tmp in memory, and no other
process.  Time, memory, processes and file sizes are bounded by the kernel.  There is no other way to
run them: without bubblewrap the task is refused.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .problems import Unavailable

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/alternatives")
SCRATCH = "/tmp"  # noqa: S108 (the sandbox's own, in memory)
WORDS = 300
"""Characters of an error that are kept."""

PROGRAM = r"""
import os, resource, sys
word, memory, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
limits = {"AS": memory, "CPU": seconds, "FSIZE": 1 << 24, "NPROC": 64, "CORE": 0}
for kind, most in limits.items():
    resource.setrlimit(getattr(resource, "RLIMIT_" + kind), (most, most))
text, told = sys.stdin.read(), os.dup(1)
os.dup2(os.open(os.devnull, os.O_RDWR), 1)
os.dup2(1, 0)
sys.argv = ["program.py"]
exec(compile(text, "program.py", "exec"), {"__name__": "__main__"})
sys.stdout.flush()
os.write(told, word.encode())
"""


@dataclass(frozen=True)
class Outcome:
    """How a program went: `why` says in a line what kept it from its end, if anything did."""

    why: str = ""

    @property
    def passed(self) -> bool:
        """Whether it came to its end."""
        return not self.why


def run(program: str, *, seconds: float, memory_bytes: int = 1 << 30) -> Outcome:
    """Runs a Python program; it has passed when it came to its end, not when it left early."""
    word = secrets.token_hex(16)  # unknown to the program: `sys.exit(0)` is not the end
    limits = [word, str(memory_bytes), str(max(1, round(seconds)))]
    python = [_python(), "-I", "-S", "-B", "-c", PROGRAM, *limits]
    try:
        done = subprocess.run(
            [*_box(), *python], input=program.encode("utf-8", "replace"), capture_output=True,
            timeout=seconds + 2, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(f"did not end in {seconds:g} s")
    if done.returncode == 0 and done.stdout == word.encode():
        return Outcome()
    if done.returncode in (-24, -9, 137, 152):  # SIGXCPU, then SIGKILL, as bubblewrap passes them on
        return Outcome(f"did not end in {seconds:g} s")
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return Outcome((lines[-1] if lines else "left before its end")[:WORDS])


def must_be_there() -> None:
    """`Unavailable` where programs cannot be boxed in: they are not run without."""
    program = shutil.which("bwrap")
    if program is None:
        raise Unavailable(
            "no bubblewrap", why="programs that a model wrote run in its sandbox only",
            do="apt install bubblewrap",
        )  # fmt: skip
    done = run("pass", seconds=10)
    if not done.passed:
        raise Unavailable(
            "bubblewrap cannot make a sandbox here", why=done.why,
            do="allow unprivileged user namespaces, or run as root",
        )  # fmt: skip


def _python() -> str:
    """The interpreter itself, outside of a virtual environment."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")


def _box() -> list[str]:
    box = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    box += [
        "--hostname",
        "sandbox",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        SCRATCH,
        "--chdir",
        SCRATCH,
    ]
    for place in SYSTEM:
        if os.path.islink(place):  # noqa: PTH114 (a link must stay one)
            box += ["--symlink", os.readlink(place), place]  # noqa: PTH115
        elif Path(place).exists():
            box += ["--ro-bind", place, place]
    if not sys.base_prefix.startswith("/usr"):
        box += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    return [*box, "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", SCRATCH]
