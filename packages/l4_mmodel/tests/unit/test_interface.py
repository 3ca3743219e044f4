"""The published interface: its size, its cost, its documents."""

from __future__ import annotations

import importlib.resources
import json
import subprocess
import sys

import l4_mmodel
import pytest
from l4_mmodel import api
from l4_mmodel._kit.documents import json_schema
from l4_mmodel.documents import Deployment, EvalReport


def test_api_is_small_and_every_name_is_there() -> None:
    assert len(api.__all__) <= 30
    for name in api.__all__:
        assert getattr(l4_mmodel, name) is getattr(api, name)


def test_importing_the_api_loads_nothing_heavy_and_no_other_layer() -> None:
    program = "import sys, l4_mmodel.api; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split()
    )
    heavy = {
        "torch",
        "transformers",
        "peft",
        "fastapi",
        "sqlalchemy",
        "aiohttp",
        "numpy",
        "scipy",
        "xllamacpp",
        "uvicorn",
    }
    layers = {"l0_infra_os", "l1_podsys", "l2_aistation", "l3_ylink"}
    assert not loaded & (heavy | layers)


@pytest.mark.parametrize(("name", "model"), [("eval-report", EvalReport), ("deployment", Deployment)])
def test_the_committed_schema_is_the_models(name: str, model: type[EvalReport | Deployment]) -> None:
    path = importlib.resources.files("l4_mmodel") / "schemas" / f"{name}-v1.json"
    assert path.read_text("utf-8") == json_schema(model)
    assert json.loads(path.read_text("utf-8"))["additionalProperties"] is False
