"""Runs a layer's benchmarks: bench.py LAYER [--only NAME] [--json FILE].

Each `packages/*/benchmarks/bench_*.py` prints one JSON list of rows on stdout:
{layer, name, ours, peer, peer_version, ratio, unit, how, bar, ok}.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
FIELDS = ("layer", "name", "ours", "peer", "peer_version", "ratio", "unit", "how", "bar", "ok")


def run(script: Path) -> list[dict[str, Any]]:
    """One benchmark's rows; a failure is a row that is not ok, so that the others still run."""
    done = subprocess.run(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False
    )
    try:
        rows: list[dict[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else []
    except ValueError:
        rows = []
    lacking = sorted({name for row in rows for name in FIELDS if name not in row})
    if not rows or lacking:
        why = f"{script.name} ended with {done.returncode}"
        why += f", a row lacks {', '.join(lacking)}" if lacking else ""
        failed = {"layer": script.parts[-3][:2], "name": script.stem, "how": why, "ok": False}
        return [dict.fromkeys(FIELDS) | failed]
    return [{name: row[name] for name in FIELDS} for row in rows]


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(box=None, pad_edge=False)
    for field in FIELDS[1:]:
        shown.add_column(field.replace("_", " "), overflow="fold")
    for row in rows:
        cells = (row.get(field) for field in FIELDS[1:])
        shown.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells))
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("layer", help="l0 … l4, or all")
    parser.add_argument("--only", default="", help="part of a benchmark's file name")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    pattern = "*" if options.layer == "all" else f"{options.layer}_*"
    found = sorted(ROOT.glob(f"packages/{pattern}/benchmarks/bench_*.py"))
    scripts = [script for script in found if options.only in script.stem]
    if not scripts:
        print(f"no benchmark matches {options.layer!r} {options.only!r}", file=sys.stderr)
        return 2
    rows = [row for script in scripts for row in run(script)]
    Console(width=200).print(table(rows), markup=False)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row.get("ok") is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
