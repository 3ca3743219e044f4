"""A data run as jobs of a real aistation: the bytes of a local run."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.engines import make_engine
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
pytest.importorskip("l2_aistation.api", reason="needs l2-aistation: pip install 'l3-ylink[aistation]'")

from l3_ylink.adapters.l2_aistation import AistationRunner  # noqa: E402

TEXT = "The agent tells the server how the work goes, and the people of the shift look at the page. "
STEPS = ("extract", "clean", "language", "personal", "exact", "near")
RECIPE = parse_recipe(
    {
        "name": "small",
        "sources": [{"name": "all", "licence": "CC0-1.0"}],
        "steps": [*({"step": step} for step in STEPS), {"step": "tokenise", "vocabulary": 300}],
    }
)


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[tuple[str, str, Path]]:
    """A served aistation: its address, its token, its shared folder."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    shared = tmp_path / "shared"
    shared.mkdir()
    settings = {"OGAI_HOME": tmp_path / "home", "OGAI_L2_PORT": port, "OGAI_L2_SHARED_DIR": shared}
    environment = {**os.environ, **{name: str(value) for name, value in settings.items()}}
    url = f"http://127.0.0.1:{port}"
    with open(tmp_path / "serve.log", "w", encoding="utf-8") as log:
        command = [sys.executable, "-m", "l2_aistation", "serve"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    until = time.monotonic() + 90
    while not answers(url):
        assert time.monotonic() < until, (tmp_path / "serve.log").read_text("utf-8")
        time.sleep(0.1)
    yield url, (tmp_path / "home/admin.token").read_text("utf-8").strip(), shared
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False


def bytes_of(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", ".costs.jsonl")
    }


def test_jobs_of_the_platform_give_the_bytes_of_a_local_run(platform: tuple[str, str, Path]) -> None:
    url, token, shared = platform
    (shared / "in").mkdir()
    for number in range(12):
        (shared / f"in/{number:02d}.txt").write_text(f"{TEXT}This is page {number}. " * (number + 3))
    local = run_recipe(RECIPE, input_folder=shared / "in", out=shared / "local", block_bytes=5_000)
    engine = make_engine("jobs", runner=lambda: AistationRunner(url, token), shared=shared)
    done = run_recipe(
        RECIPE, input_folder=shared / "in", out=shared / "jobs", block_bytes=5_000, workers=2, engine=engine
    )
    assert done.blocks > 2
    assert bytes_of(done.folder) == bytes_of(local.folder)
    with pytest.raises(BadInput, match="outside the shared folder"):
        run_recipe(
            RECIPE, input_folder=shared / "in", out=shared.parent / "elsewhere", workers=2, engine=engine
        )
