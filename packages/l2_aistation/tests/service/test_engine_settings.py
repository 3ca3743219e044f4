"""An engine that cannot be had is told by `serve` in one error, before anything is started."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.pool import ClusterFacts, NodeFacts
from l2_aistation.service.engines import make_engine, with_engine
from l2_aistation.settings import Settings


@pytest.mark.parametrize(
    ("engine", "code", "words"),
    [
        ("kubernetes", 2, "kubernetes_image: is not set"),
        ("slurm", 3, "Slurm's commands are not here"),
        ("pbs", 2, "engine"),
    ],
)
def test_serve_says_what_its_engine_lacks(engine: str, code: int, words: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OGAI_HOME": str(tmp_path), "OGAI_L2_ENGINE": engine, "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "l2_aistation", "serve", "--port", "1"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "aistation on" not in done.stdout


def test_an_imported_pool_takes_the_engine_of_the_settings(tmp_path: Path) -> None:
    node = NodeFacts("n1", 8, engine="agent")
    facts = ClusterFacts("c", (node,))
    assert with_engine(facts, Settings.load(home=tmp_path)) == facts
    slurm = with_engine(facts, Settings.load(home=tmp_path, engine="slurm"))
    assert slurm.nodes == (replace(node, engine="slurm"),)
    with pytest.raises(BadInput, match="there is no engine 'pbs'"):
        make_engine("pbs", Settings.load(home=tmp_path))
