"""Labs for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from l0_infra_os._kit.problems import Unavailable
from l0_infra_os.lab import Lab
from l0_infra_os.lab.host import require_programs
from l0_infra_os.lab.plan import Kind


@pytest.fixture(scope="session")
def need() -> Callable[[Kind], None]:
    """Skips, naming what this machine lacks for labs of a kind."""

    def check(kind: Kind) -> None:
        try:
            require_programs(kind)
        except Unavailable as missing:
            pytest.skip(f"{missing.what}; {missing.do}")

    return check


@pytest.fixture(scope="session")
def ssh_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("ssh"):
        pytest.skip("needs ssh: apt-get install -y openssh-client")
    key = tmp_path_factory.mktemp("ssh") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key


@pytest.fixture(scope="module")
def lab_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose lab is taken down afterwards, however the test ended."""
    folder = tmp_path_factory.mktemp("lab") / "room"
    yield folder
    Lab(folder).down()
    assert not folder.exists() or not os.listdir(folder)
