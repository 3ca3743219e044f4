"""What goes wrong most often, through the five command lines: one clear error, and nothing half-done."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "integration_tests" / "demo" / "recipe.yaml"
GOLDEN = ROOT / "integration_tests" / "contracts" / "v1"


def environment(home: Path) -> dict[str, str]:
    """A user's environment whose state and settings are in `home`."""
    return {**os.environ, "OGAI_HOME": str(home), "OGAI_CONFIG": str(home / "ogai.toml"), "COLUMNS": "200"}


def run(module: str, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """One command of a layer, as a user types it."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, env=environment(home), capture_output=True, text=True, cwd=home)


def unreachable_bmc(folder: Path) -> list[str]:
    (folder / "secret").write_text("x")
    return [
        "l0_infra_os",
        "enroll",
        "127.0.0.1:9",
        "--username",
        "admin",
        "--password-file",
        str(folder / "secret"),
    ]


def two_equal_macs(folder: Path) -> list[str]:
    inventory = json.loads((GOLDEN / "node-inventory.json").read_text())
    inventory["nodes"][1]["nics"][0]["mac"] = inventory["nodes"][0]["nics"][0]["mac"]
    (folder / "nodes.json").write_text(json.dumps(inventory))
    return ["l1_podsys", "import", str(folder / "nodes.json"), "--out", str(folder / "inventory.yaml")]


def unknown_field(folder: Path) -> list[str]:
    (folder / "inventory.yaml").write_text("cluster: a\ncolour: blue\nhosts: []\n")
    return ["l1_podsys", "plan", str(folder / "inventory.yaml")]


def not_a_job(folder: Path) -> list[str]:
    (folder / "job.yaml").write_text("- a list\n")
    return ["l2_aistation", "submit", str(folder / "job.yaml")]


def empty_data_folder(folder: Path) -> list[str]:
    (folder / "in").mkdir()
    return [
        "l3_ylink",
        "data",
        "run",
        str(RECIPE),
        "--input",
        str(folder / "in"),
        "--out",
        str(folder / "out"),
    ]


def impossible_layout(folder: Path) -> list[str]:
    return ["l3_ylink", "plan", "pretrain", "--model", "tiny", "--world-size", "0", "--steps", "1"]


def pickle_as_a_model(folder: Path) -> list[str]:
    weights = folder / "model.safetensors"  # the name lies
    weights.write_bytes(pickle.dumps({"weights": [1.0] * 100}))
    manifest = json.loads((GOLDEN / "model-manifest-base.json").read_text())
    digest = "sha256:" + hashlib.sha256(weights.read_bytes()).hexdigest()
    manifest["files"] = [{"uri": weights.name, "sha256": digest, "bytes": weights.stat().st_size}]
    (folder / "model-manifest.json").write_text(json.dumps(manifest))
    return ["l4_mmodel", "register", str(folder / "model-manifest.json")]


def changed_weights(folder: Path) -> list[str]:
    words = pickle_as_a_model(folder)
    (folder / "model.safetensors").write_bytes(b"changed since")
    return words


CASES = [
    (unreachable_bmc, (1, 2, 3), "127.0.0.1:9"),
    (two_equal_macs, (2,), "MAC"),
    (unknown_field, (2,), "colour"),
    (not_a_job, (2,), "mapping"),
    (empty_data_folder, (2,), "no documents|empty|nothing"),
    (impossible_layout, (2,), "world"),
    (pickle_as_a_model, (2,), "pickle|safetensors"),
    (changed_weights, (1, 2), "sha256|digest|bytes"),
]


@pytest.mark.parametrize(
    ("prepare", "codes", "words"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_the_error_is_clear(
    prepare: Callable[[Path], list[str]], codes: tuple[int, ...], words: str, tmp_path: Path
) -> None:
    done = run(*prepare(tmp_path), home=tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode in codes, said
    assert "Traceback" not in said
    assert any(word.lower() in said.lower() for word in words.split("|")), said
    assert not (tmp_path / "out" / "dataset-manifest.json").exists()
    assert not (tmp_path / "inventory.yaml").exists() or prepare is unknown_field
