"""A disk that is really full: a small tmpfs of our own."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from l3_ylink._kit.problems import Failed
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe

pytestmark = pytest.mark.real


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], capture_output=True
    )
    if not mounted or mounted.returncode != 0:
        pytest.skip("mounting a tmpfs needs root")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_is_one_clear_error_and_the_run_goes_on_once_there_is_room(
    tmp_path: Path, small_disk: Path, workers: int
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rng = random.Random(1)
    for number in range(20):
        text = " ".join(f"{rng.randrange(10**12):x}" for _ in range(8_000))
        (folder / f"{number:02d}.txt").write_text(text)
    recipe = parse_recipe(
        {
            "name": "x",
            "sources": [{"name": "s", "licence": "MIT"}],
            "steps": [{"step": "extract"}, {"step": "clean"}],
        }
    )

    def run() -> int:
        done = run_recipe(
            recipe, input_folder=folder, out=small_disk / "out", workers=workers, block_bytes=100_000
        )
        return done.manifest.rows

    with pytest.raises(Failed, match="no space left") as caught:
        run()
    assert "run the same command again" in str(caught.value)
    out = small_disk / "out"
    assert not list(out.rglob("*.tmp"))
    assert not (out / "text/dataset-manifest.json").exists()
    committed = len(list((out / "signals").glob("block-*.json")))
    assert committed > 0
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert run() == 20
