"""Proves that a layer stands alone: its wheel in an empty environment passes its sdist's tests.

Usage: isolation.py PACKAGE UV.  Tests that need a real service or an extra skip by name here;
the `tests` session runs them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST_TOOLS = (
    "pytest", "hypothesis", "pytest-asyncio", "pytest-randomly", "pytest-timeout", "pytest-xdist",
    "schemathesis", "httpx2", "jsonschema",
)  # fmt: skip
COMMANDS = {
    "l0_infra_os": "infra-os",
    "l1_podsys": "podsys",
    "l2_aistation": "aistation",
    "l3_ylink": "ylink",
    "l4_mmodel": "mmodel",
}


def call(*command: str | Path, cwd: Path | None = None) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=cwd)


def main(package: str, uv: str) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{package}-alone-") as name:
        folder = Path(name)
        call(uv, "build", "-q", ROOT / "packages" / package, "--out-dir", folder / "dist")
        (wheel,) = (folder / "dist").glob("*.whl")
        (sdist,) = (folder / "dist").glob("*.tar.gz")
        venv = folder / "venv"
        python = venv / "bin" / "python"
        call(uv, "venv", "-q", "--python", sys.executable, venv)
        constraints = ROOT / "constraints.txt"
        call(uv, "pip", "install", "-q", "-p", python, "-c", constraints, wheel, *TEST_TOOLS)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "source", filter="data")
        (source,) = (folder / "source").iterdir()
        for word in ("--version", "--help"):
            call(venv / "bin" / COMMANDS[package], word)
        os.environ["OGAI_HOME"] = str(folder / "home")
        call(
            python, "-I", "-m", "pytest", "-q", "-n", "2", "-m", "not real", "-p", "no:cacheprovider",
            f"--rootdir={source}", "-c", source / "pyproject.toml", source / "tests",
            cwd=source,
        )  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
