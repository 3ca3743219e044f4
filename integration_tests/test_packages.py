"""What the built wheels promise: versions, bounded extras, licence, typing marker."""

from __future__ import annotations

import re
import subprocess
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(path.name for path in (ROOT / "packages").iterdir() if (path / "pyproject.toml").exists())


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    for package in PACKAGES:
        command = [bootstrap.uv(), "build", "-q", "--wheel", str(ROOT / "packages" / package)]
        subprocess.run([*command, "--out-dir", str(folder)], check=True)
    return {path.name.split("-")[0]: path for path in folder.glob("*.whl")}


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel(package: str, wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels[package]) as wheel:
        names = wheel.namelist()
        (metadata_name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(wheel.read(metadata_name).decode())
    assert f"{package}/py.typed" in names
    assert f"{package}/_kit/static/style.css" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    for requirement in metadata.get_all("Requires-Dist", []):
        if match := re.match(r"l\d-[a-z-]+", requirement):
            # a workspace member gets no bound unless it is written down
            assert ">=0.1" in requirement, match[0]
            assert "<0.2" in requirement, match[0]
            assert "extra ==" in requirement, f"{match[0]} is a hard dependency"
