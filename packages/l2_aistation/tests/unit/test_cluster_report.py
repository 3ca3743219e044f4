"""The pool from L1's report: what is read, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.problems import BadInput
from l2_aistation.adapters.l1_podsys import ClusterReportSource
from l2_aistation.adapters.this_machine import ThisMachine, parse_nvidia


def report(**changes: Any) -> dict[str, Any]:
    def node(name: str, role: str = "member", **more: Any) -> dict[str, Any]:
        return {
            "id": name,
            "hostname": f"host-{name}",
            "role": role,
            "addresses": {"management": "10.0.0.1/24", "compute": f"10.1.0.{name[1:]}"},
            "arch": "x86_64",
            "cpu_cores": 2,
            "memory_bytes": 1 << 30,
            "os": "Debian 12",
            "kernel": "6.1",
            **more,
        }

    accelerators = [
        {"index": 1, "vendor": "nvidia", "model": "H100", "memory_bytes": 80 << 30, "numa": 1},
        {"index": 0, "vendor": "nvidia", "model": "H100", "memory_bytes": 80 << 30},
    ]
    value = {
        "schema": "ogai.cluster-report/v1",
        "producer": {"name": "l1_podsys", "version": "0.1.0"},
        "inputs": [],
        "taken_at": "2026-01-01T00:00:00Z",
        "cluster": "lab",
        "tenant": "demo",
        "nodes": [node("m1", accelerators=accelerators), node("m2"), node("m3", "spare")],
        "topology": {
            "level": "site",
            "name": "dc",
            "children": [
                {
                    "level": "spine",
                    "name": "spine1",
                    "children": [
                        {
                            "level": "leaf",
                            "name": "leaf1",
                            "children": [
                                {"level": "node", "name": "m1"},
                                {"level": "node", "name": "host-m2"},
                            ],
                        }
                    ],
                }
            ],
        },
        "checks": [{"name": "memory", "verdict": "pass"}],
        "something_new": True,
    }
    return {**value, **changes}


def network(one: str, other: str, verdict: str) -> dict[str, str]:
    return {"name": "network-bandwidth", "node": one, "peer": other, "verdict": verdict}


def test_failed_checks_mark_nodes_links_and_leaves() -> None:
    value = report()
    value["nodes"] += [{**value["nodes"][1], "id": name, "hostname": name} for name in ("m4", "m5")]
    leaves = {"leaf1": ["m1", "m2", "m3"], "leaf2": ["m4"], "leaf3": ["m5"]}
    value["topology"] = {
        "level": "site",
        "name": "dc",
        "children": [
            {"level": "leaf", "name": leaf, "children": [{"level": "node", "name": name} for name in names]}
            for leaf, names in leaves.items()
        ],
    }
    value["checks"] = [
        {"name": "memory", "node": "m1", "verdict": "fail"},
        {"name": "cpu", "node": "m2", "verdict": "warn"},
        network("m1", "m2", "pass"),
        network("m1", "m3", "fail"),
        network("m2", "host-m3", "fail"),
        network("m1", "m4", "fail"),
        network("m2", "m5", "pass"),
        network("m5", "m4", "fail"),
    ]
    facts = ClusterReportSource(value).cluster()
    assert {node.id for node in facts.nodes if node.health != "ok"} == {"m1"}
    assert {node.id for node in facts.nodes if node.weak_rails} == {"m3"}
    assert facts.weak_leaves == ("leaf2",)


def test_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report()))
    facts = ClusterReportSource.read(path).cluster()
    first, second, third = facts.nodes
    assert (facts.name, facts.tenant) == ("lab", "demo")
    assert facts.digest is not None
    assert facts.digest.startswith("sha256:")
    assert [item.index for item in first.accelerators] == [0, 1]
    assert (first.leaf, first.spine, first.address, first.engine) == ("leaf1", "spine1", "10.1.0.1", "agent")
    assert second.leaf == "leaf1"  # the tree may name hosts
    assert (third.leaf, third.spare) == ("unknown", True)


def tree_with_m1_twice() -> dict[str, Any]:
    return {"level": "site", "name": "dc", "children": [{"level": "node", "name": "m1"}] * 2}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schema": "ogai.node-inventory/v1"}, "schema"),
        ({"nodes": []}, "nodes"),
        ({"nodes": report()["nodes"][:1] * 2}, "nodes"),
        ({"nodes": [{"id": "m1"}]}, "nodes.0.hostname"),
        ({"topology": tree_with_m1_twice()}, "topology"),
        ({"nodes": [{**report()["nodes"][0], "cpu_cores": 0}]}, "nodes.0.cpu_cores"),
    ],
)
def test_what_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        ClusterReportSource(report(**change)).cluster()
    assert caught.value.field == field


def test_a_list_is_no_report() -> None:
    with pytest.raises(BadInput, match="is 'list', not"):
        ClusterReportSource([]).cluster()  # type: ignore[arg-type]


def test_this_machine_is_one_local_node() -> None:
    (node,) = ThisMachine().cluster().nodes
    assert node.id == "local"
    assert node.engine == "local"
    assert node.cpu_cores >= 1
    assert node.memory_bytes > 1 << 20


def test_nvidia_smi_s_rows() -> None:
    """Rows as the NVIDIA driver prints them (System Management Interface manual)."""
    text = "0, NVIDIA H100 80GB HBM3, 81559\n1, NVIDIA H100 80GB HBM3, 81559\nNo devices were found\n"
    cards = parse_nvidia(text)
    assert [(card.index, card.model, card.memory_bytes >> 30) for card in cards] == [
        (0, "NVIDIA H100 80GB HBM3", 79),
        (1, "NVIDIA H100 80GB HBM3", 79),
    ]
