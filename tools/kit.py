"""Holds the copies of kit/ in the packages equal to it: `--check` or `--write`."""

from __future__ import annotations

import argparse
import filecmp
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KIT = ROOT / "kit"
#: Layers without a database carry no database.py (and do not depend on SQLAlchemy).
LEFT_OUT = {"l1_podsys": {"database.py"}, "l3_ylink": {"database.py"}}


def files(folder: Path) -> set[Path]:
    return {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def packages() -> list[Path]:
    return sorted(path.parent for path in ROOT.glob("packages/*/src/*/py.typed"))


def differences(package: Path) -> list[str]:
    copy = package / "_kit"
    wanted = {path for path in files(KIT) if str(path) not in LEFT_OUT.get(package.name, ())}
    have = files(copy) if copy.is_dir() else set()
    rows = [f"{copy / path}: missing" for path in wanted - have]
    rows += [f"{copy / path}: not in kit/" for path in have - wanted]
    rows += [
        f"{copy / path}: differs from kit/{path}"
        for path in wanted & have
        if not filecmp.cmp(KIT / path, copy / path, shallow=False)
    ]
    return sorted(rows)


def write(package: Path) -> None:
    copy = package / "_kit"
    shutil.rmtree(copy, ignore_errors=True)
    for path in files(KIT):
        if str(path) not in LEFT_OUT.get(package.name, ()):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(KIT / path, copy / path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true")
    action.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        for package in packages():
            write(package)
        return 0
    rows = [row for package in packages() for row in differences(package)]
    for row in rows:
        print(row)
    if rows:
        print("change the file in kit/, then run: python tools/kit.py --write")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
