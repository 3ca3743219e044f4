"""The first two stages of the demo as somebody who is not root: L0 ends at its plan and says so."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from integration_tests.demo import bare_metal
from integration_tests.demo.stage import Demo


@pytest.mark.real
def test_l0_ends_at_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OGAI_HOME", "set by the demo")
    shown = io.StringIO()
    demo = Demo("process", tmp_path / "work", 1, Console(file=shown, width=200))
    with demo.stack, demo.guard:
        infra = bare_metal.nodes(demo, bare_metal.lab(demo))
        assert [node.state for node in infra.nodes()] == ["leased"] * 5
    assert "leased 4 nodes and a spare" in shown.getvalue()
    assert (
        "L0 ends at its plan (5 steps)" in shown.getvalue() or "L0 ends at its plan (" in demo.notes["limits"]
    )
