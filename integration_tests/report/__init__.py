"""The page at the end: the chain of documents re-checked, and pictures of what happened."""

from __future__ import annotations

import importlib.resources
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from l4_mmodel._kit.documents import digest_of

if TYPE_CHECKING:
    from integration_tests.demo.stage import Demo

HERE = Path(__file__).parent


def chain(documents: dict[str, Path]) -> list[dict[str, Any]]:
    """Every document with its digest computed anew, and whether its inputs are in the chain."""
    values = {name: json.loads(path.read_bytes()) for name, path in documents.items()}
    names = {digest_of(value): name for name, value in values.items()}
    return [
        {
            "name": name,
            "schema": value["schema"],
            "producer": f"{value['producer']['name']} {value['producer']['version']}",
            "digest": digest_of(value),
            "inputs": [names.get(item["digest"]) for item in value["inputs"]],
            "ok": all(item["digest"] in names for item in value["inputs"]),
        }
        for name, value in values.items()
    ]


def funnel(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a data set with the share kept of what came in, largest reasons first."""
    first = max((step["seen"] for step in manifest["steps"]), default=0) or 1
    return [
        {
            **step,
            "share": 100 * step["kept"] / first,
            "reasons": sorted(step["dropped"].items(), key=lambda item: -item[1])[:4],
        }
        for step in manifest["steps"]
    ]


def placement(record: dict[str, Any], inventory: dict[str, Any]) -> list[dict[str, Any]]:
    """For each attempt: leaves with their nodes, the rank on each, and what was lost or replaced."""
    leaves: dict[str, list[str]] = {}
    for node in inventory["nodes"]:
        leaves.setdefault(node["location"]["leaf"], []).append(node["id"])
    spares = {node["id"] for node in inventory["nodes"] if node["role"] == "spare"}
    lost: set[str] = set()
    attempts = []
    for attempt in record["attempts"]:
        lost |= set(attempt["replaced"])
        ranks = {task["node"]: task["rank"] for task in attempt["placement"]}
        rows = [
            {"leaf": leaf, "nodes": [_node_cell(node, ranks, lost, spares) for node in nodes]}
            for leaf, nodes in sorted(leaves.items())
        ]
        attempts.append({"number": attempt["number"], "cause": attempt.get("cause"), "leaves": rows})
    return attempts


def _node_cell(node: str, ranks: dict[str, int], lost: set[str], spares: set[str]) -> dict[str, Any]:
    state = "lost" if node in lost else "busy" if node in ranks else "spare" if node in spares else "free"
    return {"node": node, "rank": ranks.get(node), "state": state}


def loss_curve(record: dict[str, Any]) -> dict[str, Any]:
    """Steps and losses of the surviving history, and the step at which each fault struck."""
    last = {sample["step"]: sample.get("loss") for sample in record["steps"]}
    steps = sorted(last)
    return {
        "steps": steps,
        "loss": [last[step] for step in steps],
        "faults": [attempt["last_step"] for attempt in record["attempts"][:-1] if attempt.get("last_step")],
        "resumes": [attempt["resumed_from"] for attempt in record["attempts"] if attempt.get("resumed_from")],
    }


def write(demo: Demo, path: Path) -> None:
    """Writes the report, one self-contained file."""
    values = {name: json.loads(file.read_bytes()) for name, file in demo.documents.items()}
    static = Path(str(importlib.resources.files("l4_mmodel"))) / "_kit" / "static"
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
    )
    record, inventory = values.get("job-record"), values.get("node-inventory")
    html = environment.get_template("report.html").render(
        chain=chain(demo.documents),
        documents=values,
        funnel=funnel(values["dataset-manifest"]) if "dataset-manifest" in values else [],
        attempts=placement(record, inventory) if record and inventory else [],
        curve=loss_curve(record) if record else None,
        evaluations=[value for name, value in values.items() if name.startswith("eval-report")],
        notes=demo.notes,
        times=demo.times,
        machines=demo.machines,
        seed=demo.seed,
        now=datetime.now(UTC),
        style=(static / "style.css").read_text() + (static / "uPlot.min.css").read_text(),
        plot=(static / "uPlot.iife.min.js").read_text(),
    )
    path.write_text(html, encoding="utf-8")
