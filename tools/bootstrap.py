"""Brings nox and uv to a machine that has only Python, and says what a first run downloads.

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

#: What the first `sync` fetches, measured; a warm cache fetches nothing.
COLD_DOWNLOADS = (
    "first run: Python packages, 1.6 GB and torch besides (0.2 GB where PIP_FIND_LINKS has a CPU build,",
    "           else 3 GB with CUDA), kept in uv's cache; for demo and tests as root, Debian packages and",
    "           one Debian root, about 700 MB",
)


def cache_home() -> Path:
    """The folder for what is kept between runs: `$OGAI_CACHE`, else `ogai` in the user's cache."""
    if named := os.environ.get("OGAI_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ogai"


def private_python() -> Path:
    """The interpreter of the private environment that holds nox and uv; made when missing."""
    folder = cache_home() / f"bootstrap-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if (folder / "complete").exists() and python.exists():
        return python
    print(f"putting nox and uv into {folder}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.EnvBuilder(with_pip=True).create(folder)
    except (subprocess.CalledProcessError, SystemExit) as error:
        raise SystemExit(
            f"cannot make a virtual environment ({error}): install Python's venv module, "
            "on Debian and Ubuntu `apt-get install python3-venv`"
        ) from error
    command = [str(python), "-m", "pip", "install", "-q", "nox>=2025.2", "uv>=0.7"]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("cannot install nox and uv: see pip's message above")
    (folder / "complete").touch()
    return python


def run_as_nox(noxfile: str, arguments: list[str]) -> None:
    """Replaces this process by nox on `noxfile`; the same words as `nox ARGUMENTS`."""
    if sys.version_info < (3, 11):  # noqa: UP036 (the message a person with an old Python needs)
        raise SystemExit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    python = private_python()
    bin_folder = str(python.parent)
    os.environ["PATH"] = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"
    os.execv(str(python), [str(python), "-m", "nox", "-f", noxfile, *arguments])


def uv() -> str:
    """The uv program: beside nox, on PATH, or in the private environment."""
    beside = Path(sys.executable).parent / "uv"
    if beside.exists():
        return str(beside)
    return shutil.which("uv") or str(private_python().parent / "uv")


def base_python() -> str:
    """The interpreter under this environment, so that what is built on it outlives ours."""
    return getattr(sys, "_base_executable", "") or sys.executable


def extras(package: Path) -> str:
    """All the extras of a package, joined by commas."""
    import tomllib

    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    return ",".join(project.get("optional-dependencies", {}))


def announce_downloads(log: Callable[[str], object]) -> None:
    for line in COLD_DOWNLOADS:
        log(line)
