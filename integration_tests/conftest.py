"""The demo is run once for all tests that look at what it leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class FinishedDemo:
    """A demo that ran to its end: its folder, its report and what it printed."""

    folder: Path
    report: Path
    output: str
    machines: str


@pytest.fixture(scope="session")
def finished_demo(tmp_path_factory: pytest.TempPathFactory) -> FinishedDemo:
    """`nox -s demo`'s program, with systemd-nspawn machines where this machine can have them."""
    nspawn = os.geteuid() == 0 and shutil.which("systemd-nspawn") and shutil.which("mmdebstrap")
    machines = "nspawn" if nspawn else "process"
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "integration_tests.demo", "--machines", machines]
    command += ["--work", str(folder / "work"), "--report", str(folder / "demo-report.html")]
    done = subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:]
    return FinishedDemo(folder / "work", folder / "demo-report.html", done.stdout, machines)


@pytest.fixture(scope="session")
def demo_home(finished_demo: FinishedDemo) -> Path:
    """The layers' state after the demo: what the pages show."""
    return finished_demo.folder / "home"
