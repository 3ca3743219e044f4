"""The shelf: which data sets, plans and training runs this machine has, and whose they are.

The things themselves lie in their folders; the shelf holds one small file with their names, so that
pages and REST find them.  An entry whose folder is gone is left out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from l3_ylink._kit.files import atomic_write, locked
from l3_ylink._kit.problems import NotFound
from l3_ylink._kit.tokens import Principal

KINDS = ("data", "run", "plan", "model")


@dataclass(frozen=True)
class Entry:
    """One thing on the shelf."""

    id: str
    kind: str
    name: str
    tenant: str
    path: str

    @property
    def folder(self) -> Path:
        """Where it lies (a plan is a file)."""
        return Path(self.path)


class Shelf:
    """The entries of one machine, in one file under the layer's state folder."""

    def __init__(self, state_dir: Path) -> None:
        self.file = state_dir / "shelf.json"

    def add(self, *, kind: str, name: str, path: Path, tenant: str) -> Entry:
        """Puts a folder (or a plan's file) on the shelf; the same path again replaces its entry."""
        place = str(path.resolve())
        mark = hashlib.sha256(f"{kind} {place}".encode()).hexdigest()[:12]
        entry = Entry(mark, kind, name, tenant, place)
        with locked(self.file.with_suffix(".lock")):
            rows = [row for row in self._read() if row.id != entry.id]
            atomic_write(self.file, json.dumps([asdict(row) for row in [*rows, entry]], indent=1))
        return entry

    def entries(self, kind: str, who: Principal) -> list[Entry]:
        """The caller's entries of a kind, newest last."""
        return [row for row in self._read() if row.kind == kind and who.may_see(row.tenant)]

    def get(self, kind: str, mark: str, who: Principal) -> Entry:
        """One entry; `NotFound` alike when there is none and when it is another tenant's."""
        for row in self.entries(kind, who):
            if row.id == mark:
                return row
        raise NotFound(f"no {kind} {mark!r}", do="look at the list")

    def _read(self) -> list[Entry]:
        try:
            rows = [Entry(**row) for row in json.loads(self.file.read_bytes())]
        except FileNotFoundError:
            return []
        return [row for row in rows if row.folder.exists()]
