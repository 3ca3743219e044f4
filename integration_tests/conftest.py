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

from integration_tests.chaos.kills import (
    KilledRun,
    adopt_orphans,
    descendants,
    kinds_to_kill,
    run_and_kill,
    what_is_left,
)
from tools import bootstrap

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class FinishedDemo:
    """A demo that ran to its end: its folder, its report, what it printed, what it left on the machine."""

    folder: Path
    report: Path
    output: str
    machines: str
    left: list[str]


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
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every run of the demo works, one after the other."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="session")
def killed_runs(demo_folder: Path) -> list[KilledRun]:
    """Runs of the demo, in each of which one process was killed with -9: with OGAI_SOAK=1 of every kind."""
    seed = int(os.environ.get("OGAI_SEED") or 0)
    kinds = kinds_to_kill(soak=os.environ.get("OGAI_SOAK") == "1", seed=seed, machines=demo_machines())
    command, log = demo_command(demo_folder), demo_folder / "killed.log"
    return [run_and_kill(command, demo_folder / "work", kind, log, seed) for kind in kinds]


@pytest.fixture(scope="session")
def finished_demo(demo_folder: Path, killed_runs: list[KilledRun]) -> FinishedDemo:
    """The same command once more after those that were killed: it runs to its end."""
    adopt_orphans()
    before = descendants()
    done = subprocess.run(
        demo_command(demo_folder), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout[-8000:]
    work = demo_folder / "work"
    left = what_is_left(work, before, patience_s=5)
    return FinishedDemo(work, demo_folder / "demo-report.html", done.stdout, demo_machines(), left)


@pytest.fixture(scope="session")
def demo_home(finished_demo: FinishedDemo) -> Path:
    """The layers' state after the demo: what the pages show."""
    return finished_demo.folder / "home"
