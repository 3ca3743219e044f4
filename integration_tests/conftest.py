"""The demo is run once for all tests that look at what it leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class FinishedDemo:
    """A demo that ran to its end: its folder, its report and what it printed."""

    folder: Path
    report: Path
    output: str
    machines: str


def demo_machines() -> str:
    """systemd-nspawn machines where this machine can have them."""
    nspawn = os.geteuid() == 0 and shutil.which("systemd-nspawn") and shutil.which("mmdebstrap")
    return "nspawn" if nspawn else "process"


@cache
def build_agent_wheel() -> None:
    """The wheel that the demo's cluster profile names; `nox -s demo` builds it in the same place."""
    build = [bootstrap.uv(), "build", "-q", "--wheel", "packages/l2_aistation", "--out-dir", ".cache/wheels"]
    subprocess.run(build, cwd=ROOT, check=True)


def demo_command(folder: Path) -> list[str]:
    """`nox -s demo`'s program, in a folder of its own."""
    build_agent_wheel()
    command = [sys.executable, "-m", "integration_tests.demo", "--machines", demo_machines()]
    return [*command, "--work", str(folder / "work"), "--report", str(folder / "demo-report.html")]


@pytest.fixture(scope="session")
def finished_demo(tmp_path_factory: pytest.TempPathFactory) -> FinishedDemo:
    """A demo that ran to its end."""
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        demo_command(folder), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return FinishedDemo(folder / "work", folder / "demo-report.html", done.stdout, demo_machines())


@pytest.fixture(scope="session")
def demo_home(finished_demo: FinishedDemo) -> Path:
    """The layers' state after the demo: what the pages show."""
    return finished_demo.folder / "home"
