"""Bounds that may only tighten without a reviewed reason.

- a layer's api has at most 30 names, imports in 0.3 s of CPU, and loads nothing heavy and no other layer;
- the set of command-line options is frozen in tools/cli-options.txt: growth is a reviewed act
  (`python tools/ratchets.py --write` records it);
- documents' JSON Schemas are committed as the models give them.
"""

from __future__ import annotations

import difflib
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from l0_infra_os._kit.documents import json_schema

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("l0_infra_os", "l1_podsys", "l2_aistation", "l3_ylink", "l4_mmodel")
MOST_NAMES = 30
MOST_IMPORT_CPU_S = 0.3
HEAVY = (
    "torch", "transformers", "deepspeed", "peft", "trl", "celery", "sqlalchemy", "fastapi", "ansible_runner",
    "pyarrow", "scipy", "pandas", "sushy", "aiohttp", "trafilatura", "uvicorn",
)  # fmt: skip
FROZEN = Path(__file__).with_name("cli-options.txt")

MEASURE = """
import json, sys, time
start = time.process_time()
import {layer}.api
print(json.dumps([time.process_time() - start, sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


def api_faults(layer: str) -> Iterator[str]:
    """What breaks the rules about a layer's published interface."""
    names = importlib.import_module(f"{layer}.api").__all__
    if len(names) > MOST_NAMES:
        yield f"{layer}.api has {len(names)} names, {MOST_NAMES} at most"
    for name in names:
        if not hasattr(importlib.import_module(f"{layer}.api"), name):
            yield f"{layer}.api lists {name} but has no such name"
    runs = [
        json.loads(subprocess.check_output([sys.executable, "-c", MEASURE.format(layer=layer)]))
        for _ in range(3)
    ]
    seconds, modules = min(runs)
    if seconds > MOST_IMPORT_CPU_S:
        yield f"importing {layer}.api takes {seconds:.2f} s of CPU, {MOST_IMPORT_CPU_S} at most"
    forbidden = set(HEAVY) | set(LAYERS) - {layer}
    if loaded := sorted(forbidden & set(modules)):
        yield f"importing {layer}.api loads {', '.join(loaded)}"


def options_of(command: Any, path: str) -> Iterator[str]:
    """`path --option` for every option and argument of a command and its sub-commands."""
    for parameter in command.params:
        if parameter.name != "help":
            yield f"{path} {'/'.join([*parameter.opts, *parameter.secondary_opts])}"
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield f"{path} {name}"
        yield from options_of(child, f"{path} {name}")


def command_lines() -> str:
    """All commands and options of the five command lines, a line each."""
    rows: list[str] = []
    for layer in LAYERS:
        module = importlib.import_module(f"{layer}.cli")
        rows += options_of(typer.main.get_command(module.app), layer)
    return "\n".join(rows) + "\n"


def option_faults() -> Iterator[str]:
    """Options that were added or taken away since the frozen list."""
    frozen = FROZEN.read_text().splitlines() if FROZEN.exists() else []
    for line in difflib.unified_diff(frozen, command_lines().splitlines(), "frozen", "now", lineterm="", n=0):
        if line[:1] in "+-" and line[:3] not in ("+++", "---"):
            yield f"command-line option {line} (record it with: python tools/ratchets.py --write)"


def schemas() -> Iterator[tuple[Path, str]]:
    """Where each document's JSON Schema is committed, and what its model gives."""
    for layer in LAYERS:
        module = importlib.import_module(f"{layer}.documents")
        folder = Path(str(module.__file__)).with_name("schemas")
        for model in vars(module).values():
            if schema := getattr(model, "SCHEMA", None):
                name = schema.removeprefix("ogai.").replace("/", "-")
                yield folder / f"{name}.json", json_schema(model)


def schema_faults() -> Iterator[str]:
    """Committed JSON Schemas that differ from their models."""
    for path, text in schemas():
        if not path.exists() or path.read_text() != text:
            yield f"{path.relative_to(ROOT)} differs from its model (write it with --write)"


def write() -> None:
    """Records the options and the JSON Schemas as they are now."""
    FROZEN.write_text(command_lines())
    for path, text in schemas():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def main() -> int:
    if "--write" in sys.argv:
        write()
        return 0
    faults = [fault for layer in LAYERS for fault in api_faults(layer)]
    faults += [*option_faults(), *schema_faults()]
    print("\n".join(faults) or "ratchets hold")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
