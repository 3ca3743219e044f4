"""The engine of this machine passes the published kit."""

from __future__ import annotations

from pathlib import Path

import pytest
from l2_aistation.backends.local import LocalEngine
from l2_aistation.testing import EngineConformance, EngineLab


class TestLocalEngine(EngineConformance):
    @pytest.fixture
    def lab(self, tmp_path: Path) -> EngineLab:
        shared = tmp_path / "shared"
        return EngineLab(
            open_engine=lambda: LocalEngine(tmp_path / "engine", shared, heartbeat_s=0.3),
            nodes=("n1", "n2"),
            shared=shared,
        )
