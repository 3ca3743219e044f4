"""kill -9 of whoever brings a lab up, at random moments: clean-up finds everything."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from l0_infra_os.lab import Lab, network
from l0_infra_os.lab.cleaning import known_ids, processes_of
from l0_infra_os.lab.folder import read_entry
from l0_infra_os.lab.plan import Kind

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
ROUNDS = 40 if os.environ.get("OGAI_SOAK") == "1" else 4
DICE = random.Random(os.environ.get("OGAI_SEED", "0"))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["process", "nspawn"])
def test_up_is_killed_at_any_moment(tmp_path: Path, need: Callable[[Kind], None], kind: Kind) -> None:
    need(kind)
    lab = Lab(tmp_path / "lab")
    program = f"""
        from l0_infra_os.lab import Lab
        Lab({str(tmp_path / "lab")!r}).up(machines=2, kind={kind!r})
        print("up", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    usual = time.monotonic() - started
    entry = read_entry(lab.id)
    assert entry is not None
    os.kill(entry.owner.pid, signal.SIGKILL)
    for _ in range(ROUNDS):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as caller:
            time.sleep(DICE.uniform(0.2 * usual, 1.1 * usual))
            caller.kill()
        lab.down()
        assert lab.id not in known_ids()
        assert processes_of(lab.id) == set()
        if kind == "nspawn":
            assert not [name for name in network.namespaces() if lab.id in name]
        assert not (tmp_path / "lab").exists() or not any((tmp_path / "lab").iterdir())


def test_clean_up_works_without_the_labs_folder(tmp_path: Path, need: Callable[[Kind], None]) -> None:
    """A test's temporary folder is gone before its lab: the register and the names are enough."""
    need("nspawn")
    lab = Lab(tmp_path / "lab").up(machines=1, kind="nspawn")
    entry = read_entry(lab.id)
    assert entry is not None
    os.kill(entry.owner.pid, signal.SIGKILL)
    subprocess.run(["rm", "-rf", str(tmp_path / "lab"), f"/run/ogai/labs/{lab.id}"], check=True)
    deadline = time.monotonic() + 10
    while entry.owner.alive():
        assert time.monotonic() < deadline
    assert lab.id in Lab.clean()
    assert lab.id not in known_ids()
    assert not [name for name in network.namespaces() if lab.id in name]
