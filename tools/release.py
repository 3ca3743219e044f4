"""Wheels and source distributions into dist/, checked, each with a CycloneDX bill of materials."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
BIN = Path(sys.executable).parent


def call(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


def bill_of_materials(wheel: Path, uv: str) -> None:
    """What a user gets who installs this wheel alone."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "bin" / "python"
        call(uv, "venv", "-q", "--python", sys.executable, folder)
        call(uv, "pip", "install", "-q", "-p", python, "-c", ROOT / "constraints.txt", wheel)
        target = DIST / f"{wheel.name.removesuffix('.whl')}.cdx.json"
        call(BIN / "cyclonedx-py", "environment", python, "-o", target)


def main(uv: str) -> None:
    for package in sorted((ROOT / "packages").iterdir()):
        call(uv, "build", "-q", package, "--out-dir", DIST)
    wheels = sorted(DIST.glob("*.whl"))
    call(BIN / "twine", "check", "--strict", *wheels, *sorted(DIST.glob("*.tar.gz")))
    for wheel in wheels:
        bill_of_materials(wheel, uv)


if __name__ == "__main__":
    main(*sys.argv[1:])
