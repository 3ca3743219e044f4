"""Running code that a model wrote: in bubblewrap, without network or files, its time and memory bounded.

The code sees the system's Python and libraries read-only and an empty /tmp in memory.  There is no other way
to run it: without bubblewrap nothing is run.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from l3_ylink._kit.problems import Unavailable

SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/alternatives")
SCRATCH = "/tmp"  # noqa: S108 (the sandbox's own, in memory)
MEMORY = 1 << 30
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


def run_program(program: str, *, seconds: float) -> str:
    """Runs a Python program; returns "" if it came to its end, else in one line what kept it from it."""
    word = secrets.token_hex(16)  # unknown to the program: to leave early is not to come to the end
    python = str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}")
    limits = [word, str(MEMORY), str(max(1, round(seconds)))]
    try:
        done = subprocess.run(
            [*_box(), python, "-I", "-S", "-B", "-c", PROGRAM, *limits],
            input=program.encode("utf-8", "replace"), capture_output=True, timeout=seconds + 2, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"did not end in {seconds:g} s"
    if done.returncode == 0 and done.stdout == word.encode():
        return ""
    if done.returncode in (-24, -9, 137, 152):  # the kernel's limit on time, as bubblewrap passes it on
        return f"did not end in {seconds:g} s"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return (lines[-1] if lines else "left before its end")[:WORDS]


def must_be_there() -> None:
    """`Unavailable` where code cannot be boxed in."""
    if shutil.which("bwrap") is None:
        raise Unavailable(
            "no bubblewrap",
            why="code that a model wrote runs in its sandbox only",
            do="apt install bubblewrap",
        )
    why = run_program("pass", seconds=10)
    if why:
        do = "allow unprivileged user namespaces, or run as root"
        raise Unavailable("bubblewrap cannot make a sandbox here", why=why, do=do)


def _box() -> list[str]:
    box = [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        "--hostname",
        "sandbox",
    ]
    box += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", SCRATCH, "--chdir", SCRATCH]
    for place in map(Path, SYSTEM):
        if place.is_symlink():
            box += ["--symlink", str(place.readlink()), str(place)]
        elif place.exists():
            box += ["--ro-bind", str(place), str(place)]
    if not sys.base_prefix.startswith("/usr"):
        box += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    return [*box, "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", SCRATCH]
