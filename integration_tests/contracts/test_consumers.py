"""Every consumer reads the golden documents of every released version, and ignores what it does not know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from l1_podsys.core.inventory import from_node_inventory
from l2_aistation.adapters.l1_podsys import ClusterReportSource
from l4_mmodel.registry.manifests import read_dataset_manifest, read_model_manifest

FOLDER = Path(__file__).parent


def hosts(value: dict[str, Any]) -> list[str]:
    return [host.id for host in from_node_inventory(value).hosts]


def pool(value: dict[str, Any]) -> list[str]:
    return [node.id for node in ClusterReportSource(value).cluster().nodes]


def weights(value: dict[str, Any]) -> list[str]:
    return [file.uri for file in read_model_manifest(value, "golden").files]


def shards(value: dict[str, Any]) -> list[str]:
    return [file.uri for file in read_dataset_manifest(value, "golden").shards]


CONSUMERS: list[tuple[str, Callable[[dict[str, Any]], list[str]], list[str]]] = [
    ("node-inventory", hosts, ["m1", "m2", "m3", "m4", "m5"]),
    ("cluster-report", pool, ["m1", "m2", "m3", "m4", "m5"]),
    ("model-manifest-base", weights, ["model.safetensors", "config.json"]),
    ("model-manifest-adapter", weights, ["adapter_model.safetensors"]),
    ("dataset-manifest", shards, ["tokens/shard-00000.bin"]),
]
CASES = [
    pytest.param(path, read, names, id=f"{path.parent.name}/{path.stem}")
    for stem, read, names in CONSUMERS
    for path in sorted(FOLDER.glob(f"v*/{stem}.json"))
]


@pytest.mark.parametrize(("path", "read", "names"), CASES)
def test_the_consumer_reads_it(
    path: Path, read: Callable[[dict[str, Any]], list[str]], names: list[str]
) -> None:
    assert read(json.loads(path.read_text())) == names


@pytest.mark.parametrize(("path", "read", "names"), CASES)
def test_an_addition_within_v1_is_ignored(
    path: Path, read: Callable[[dict[str, Any]], list[str]], names: list[str]
) -> None:
    assert read(json.loads(path.read_text()) | {"added_in_a_later_v1": {"x": 1}}) == names
