"""The published schema, the published names, and what importing them costs."""

from __future__ import annotations

import importlib.resources
import json
import subprocess
import sys
from datetime import UTC, datetime

import jsonschema
import l0_infra_os
import pytest
from l0_infra_os import api
from l0_infra_os._kit.documents import Producer, json_schema
from l0_infra_os._kit.problems import BadInput
from l0_infra_os.documents import InventoryNode, Location, NodeInventory

SCHEMA = importlib.resources.files("l0_infra_os") / "schemas" / "node-inventory-v1.json"


def test_the_committed_schema_is_the_models() -> None:
    assert SCHEMA.read_text() == json_schema(NodeInventory)


def test_a_document_is_valid_by_the_schema_alone() -> None:
    node = InventoryNode(
        id="m1", hostname="m1", serial="s", bmc_ref="bmc:m1", state="active", arch="x86_64",
        cpu_cores=2, memory_bytes=1, location=Location(leaf="leaf1", rack="rack1"),
    )  # fmt: skip
    document = NodeInventory(
        producer=Producer(name="x", version="1"), taken_at=datetime(2026, 1, 1, tzinfo=UTC), nodes=[node]
    )
    jsonschema.validate(document.as_json(), json.loads(SCHEMA.read_text()))
    assert NodeInventory.parse(document.as_json()).digest() == document.digest()


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(BadInput, match="colour"):
        NodeInventory.parse(
            {"producer": {"name": "x", "version": "1"}, "taken_at": "2026-01-01T00:00:00Z", "nodes": [],
             "colour": 1}
        )  # fmt: skip


def test_every_published_name_is_there() -> None:
    assert len(api.__all__) <= 30
    for name in set(api.__all__) - {"Lab"}:
        assert getattr(l0_infra_os, name) is getattr(api, name)


def test_importing_the_api_loads_nothing_heavy() -> None:
    code = "import sys, l0_infra_os.api; print(sorted({n.partition('.')[0] for n in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("sqlalchemy", "fastapi", "sushy", "uvicorn", "requests", "pytest"):
        assert f"'{heavy}'" not in loaded
