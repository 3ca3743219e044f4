"""CPU of registering a version (digests, inspection, copy, audit), reading an alias, a page of versions.

The peer, MLflow, is measured when its skinny package can be put into an environment of its own;
OGAI_BENCH_SMALL=1 leaves it out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l4_mmodel.api import Mmodel, Settings
from l4_mmodel.testing import safetensors, write_manifest

CACHE = Path.home() / ".cache" / "ogai" / "bench"
MLFLOW = """
import json, sys, tempfile, time
from mlflow.version import VERSION
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore
from mlflow.entities.model_registry import ModelVersionTag
count = int(sys.argv[1])
store = SqlAlchemyStore("sqlite:///" + tempfile.mkdtemp() + "/m.db")
store.create_registered_model("m")
begin = time.process_time()
for number in range(count):
    store.create_model_version("m", "file:///x", tags=[ModelVersionTag("lang", "zh")])
    store.set_registered_model_alias("m", "production", str(number + 1))
version = (time.process_time() - begin) / count
begin = time.process_time()
for _ in range(count):
    store.get_model_version_by_alias("m", "production")
print(json.dumps({"version": VERSION, "register": version, "alias": (time.process_time() - begin) / count}))
"""


def each(count: int, do: Callable[[int], Any]) -> float:
    """CPU seconds of one call, of this process and thread pool."""
    begin = time.process_time()
    for number in range(count):
        do(number)
    return (time.process_time() - begin) / count


def ours(folder: Path, count: int) -> dict[str, float]:
    """Registering with a tag and an alias, then reading."""
    mmodel = Mmodel(Settings(home=folder / "home"))
    paths = []
    for number in range(count):
        model = folder / f"m{number}"
        model.mkdir()
        (model / "config.json").write_text("{}")
        (model / "model.safetensors").write_bytes(safetensors({"w": number.to_bytes(4, "big")}))
        paths.append(write_manifest(model, name="m"))
    again = [known_content(path, number) for number, path in enumerate(paths)]
    found = {
        "register": each(count, lambda n: mmodel.register(paths[n], tags={"lang": "zh"}, alias="production")),
        "known": each(count, lambda n: mmodel.register(again[n], tags={"lang": "zh"}, alias="production")),
        "alias": each(count, lambda _: mmodel.version("m@production")),
        "page": each(5, lambda _: mmodel.registry.all("default", "m", limit=1000)),
    }
    mmodel.close()
    return found


def known_content(path: Path, number: int) -> Path:
    """A new version of what is stored already: the same files under other words."""
    other = path.with_name("other.json")
    other.write_text(path.read_text().replace('"version": "1"', f'"version": "1.{number}"'))
    return other


def mlflow(count: int) -> dict[str, Any] | None:
    """The peer's figures, or None where it cannot be installed."""
    python = CACHE / "mlflow" / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(CACHE / "mlflow")], check=True)
            wanted = ["mlflow-skinny", "sqlalchemy", "alembic", "sqlparse"]
            subprocess.run([str(python), "-m", "pip", "install", "-q", *wanted], check=True)
        done = subprocess.run(
            [str(python), "-c", MLFLOW, str(count)], check=True, capture_output=True, text=True
        )
    except (subprocess.CalledProcessError, OSError):
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str, mine: float, theirs: float | None, peer: str, bar_ms: float, how: str) -> dict[str, Any]:
    """One row of the table, in milliseconds of CPU."""
    return {
        "layer": "l4", "name": name, "ours": round(mine * 1000, 3),
        "peer": None if theirs is None else round(theirs * 1000, 3), "peer_version": peer,
        "ratio": None if theirs is None else round(theirs / mine, 2), "unit": "ms CPU", "how": how,
        "bar": f"<= {bar_ms:g} ms", "ok": mine * 1000 <= bar_ms,
    }  # fmt: skip


def main() -> None:
    small = os.environ.get("OGAI_BENCH_SMALL") == "1"
    count = 50 if small else 500
    with tempfile.TemporaryDirectory() as name:
        mine = ours(Path(name), count)
    peer = None if small else mlflow(count)
    theirs = peer or {}
    named = f"MLflow {peer['version']}" if peer else "not measured"
    how = "ours also hashes, inspects and copies two files and writes an audit row; SQLite, one process"
    rows = [
        row(
            "registry, new version with tag and alias",
            mine["register"],
            theirs.get("register"),
            named,
            0.7,
            how,
        ),
        row(
            "registry, new version of stored content",
            mine["known"],
            theirs.get("register"),
            named,
            0.7,
            "the same, but no byte is copied: the files are read and hashed only",
        ),
        row("registry, read by alias", mine["alias"], theirs.get("alias"), named, 0.3, "with its manifest"),
        row(f"registry, page of {count} versions", mine["page"], None, "not measured", 20, "with manifests"),
    ]
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
