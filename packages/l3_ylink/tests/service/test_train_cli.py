"""The command line of planning, training and models, as a user meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from l3_ylink.documents import ParallelPlan
from l3_ylink.store.shelf import Shelf
from l3_ylink.trainkit import runs


def ylink(home: Path, *words: str, code: int = 0) -> str:
    environment = {**os.environ, "OGAI_HOME": str(home), "COLUMNS": "200"}
    ended = subprocess.run(
        [sys.executable, "-m", "l3_ylink", *words], env=environment, capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout if code == 0 else ended.stderr


def test_a_plan_is_written_and_told(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    words = ("plan", "pretrain", "--model", "tiny", "--world-size", "4", "--steps", "5", "--out", str(file))
    text = ylink(tmp_path, *words)
    assert "4 ranks = 4 data × 1 tensor × 1 pipeline" in text
    plan = ParallelPlan.read(file)
    assert plan.digest() in text
    printed = json.loads(ylink(tmp_path, *words, "--json"))
    assert printed == {"plan": plan.as_json(), "digest": plan.digest()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--world-size", "4", "--steps", "5", "--global-batch", "6"),
            "global_batch: 6 sequences / 4 data = 1.50",
        ),
        (
            ("--world-size", "4", "--steps", "5", "--memory", "lots"),
            "--memory: 'lots' is no amount of memory",
        ),
        (("--world-size", "4", "--steps", "5", "--memory", "1MiB"), "over the limit of 1 MiB"),
        (("--world-size", "4", "--steps", "0"), "steps: is 0"),
    ],
)
def test_a_plan_that_cannot_work_ends_with_2_and_writes_nothing(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "plan.json"
    start = ("plan", "pretrain", "--model", "tiny", "--world-size", "4", "--out", str(file))
    assert message in ylink(tmp_path, *start, *words, code=2)
    assert not file.exists()


def test_the_shapes_are_listed(tmp_path: Path) -> None:
    rows = json.loads(ylink(tmp_path, "plan", "shapes", "--json"))
    assert {"tiny", "smollm2-135m", "llama3-8b"} <= {row["name"] for row in rows}


def test_runs_are_listed_and_shown(tmp_path: Path) -> None:
    assert json.loads(ylink(tmp_path, "train", "list", "--json")) == []
    plan = tmp_path / "plan.json"
    ylink(
        tmp_path,
        "plan",
        "pretrain",
        "--model",
        "tiny",
        "--world-size",
        "1",
        "--steps",
        "1",
        "--out",
        str(plan),
    )
    out = tmp_path / "run"
    words = ("train", "pretrain", "--plan", str(plan), "--data", str(tmp_path / "none"), "--out", str(out))
    assert "no such file" in ylink(tmp_path, *words, code=2)
    assert not out.exists()
    runs.open_run(out, "pretrain", {"plan": "sha256:1"}).ended(runs.FAILED, why="rank 0 fell").write()
    Shelf(tmp_path / "l3").add(kind="run", name="mine", path=out, tenant="system")
    (row,) = json.loads(ylink(tmp_path, "train", "list", "--json"))
    assert (row["state"], row["why"]) == ("failed", "rank 0 fell")
    assert "rank 0 fell" in ylink(tmp_path, "train", "show", row["id"])
    assert json.loads(ylink(tmp_path, "train", "show", str(out), "--json"))["steps"] == []
    assert "no run in" in ylink(tmp_path, "train", "show", "run-0000", code=2)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--runner", "slurm"), 2, "'slurm' is unknown"),
        (("--runner", "aistation"), 2, "--shared"),
    ],
)
def test_a_runner_that_cannot_be_had_is_told(
    tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    if "aistation" in words:
        pytest.importorskip("l2_aistation", reason="needs l2-aistation")
    base = ("train", "sft", "--base", "b", "--data", "d", "--out", str(tmp_path / "out"))
    assert message in ylink(tmp_path, *base, *words, code=code)


def test_import_gguf_wants_one_source(tmp_path: Path) -> None:
    assert "one of them" in ylink(tmp_path, "model", "import-gguf", "--out", str(tmp_path / "m"), code=2)
    words = ("model", "import-gguf", "--package", "no_such_package", "--out", str(tmp_path / "m"))
    assert "is not installed" in ylink(tmp_path, *words, code=3)
    assert "cannot be read" in ylink(tmp_path, "model", "import-gguf", "x.gguf", "--out", "m", code=2)
