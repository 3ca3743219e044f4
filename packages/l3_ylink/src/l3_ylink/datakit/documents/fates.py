"""What was decided of each document, on disk while a run decides: fixed-width records, block by block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from l3_ylink.datakit.steps.base import KEPT, Verdicts

from .store import disk

FATE = np.dtype(
    [
        ("step", np.int16),
        ("reason", np.uint16),
        ("value", np.float64),
        ("threshold", np.float64),
        ("other", np.int64),
    ]
)
CUT = np.dtype(
    [
        ("key", np.uint64),
        ("row", np.int64),
        ("start", np.int64),
        ("end", np.int64),
        ("step", np.int16),
        ("reason", np.uint16),
    ]
)


class Fates:
    """The fates of all documents of a run in a folder of its own."""

    def __init__(self, folder: Path, first: npt.NDArray[np.int64]) -> None:
        self.folder = folder
        self.first = first
        self.reasons: list[str] = [""]
        self._codes = {"": 0}
        self._path = folder / "fates.bin"
        with disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with open(self._path, "wb") as stream:
                for number in range(len(first) - 1):
                    _fresh(int(first[number + 1] - first[number])).tofile(stream)

    def read(self, number: int) -> Verdicts:
        """The fates of a block."""
        count = int(self.first[number + 1] - self.first[number])
        verdicts = Verdicts(count)
        with open(self._path, "rb") as stream:
            stream.seek(int(self.first[number]) * FATE.itemsize)
            records = np.fromfile(stream, FATE, count)
        verdicts.step = records["step"].copy()
        verdicts.value, verdicts.threshold = records["value"].copy(), records["threshold"].copy()
        verdicts.other = records["other"].copy()
        verdicts.reason = [self.reasons[code] for code in records["reason"].tolist()]
        return verdicts

    def write(self, number: int, verdicts: Verdicts) -> None:
        """Replaces the fates of a block."""
        records = np.empty(verdicts.count, FATE)
        for name in ("step", "value", "threshold", "other"):
            records[name] = getattr(verdicts, name)
        records["reason"] = [self._code(reason) for reason in verdicts.reason]
        with disk(self._path), open(self._path, "rb+") as stream:
            stream.seek(int(self.first[number]) * FATE.itemsize)
            records.tofile(stream)

    def _code(self, reason: str) -> int:
        code = self._codes.get(reason)
        if code is None:
            code = self._codes[reason] = len(self.reasons)
            self.reasons.append(reason)
        return code

    def add_cuts(self, number: int, records: npt.NDArray[Any], step: int, reasons: list[str]) -> None:
        """Notes spans of a block; `records["reason"]` are places in `reasons`."""
        records = records.copy()
        records["step"] = step
        records["reason"] = [self._code(reasons[code]) for code in records["reason"].tolist()]
        with disk(self.folder), open(self._cut_path(number), "ab") as stream:
            records.tofile(stream)

    def cuts(self, number: int) -> npt.NDArray[Any]:
        """The spans of a block."""
        path = self._cut_path(number)
        return np.fromfile(path, CUT) if path.exists() else np.zeros(0, CUT)

    def _cut_path(self, number: int) -> Path:
        return self.folder / f"cuts-{number:06d}.bin"


def _fresh(count: int) -> npt.NDArray[Any]:
    records = np.zeros(count, FATE)
    records["step"], records["other"] = KEPT, -1
    records["value"] = records["threshold"] = np.nan
    return records


class IdFile:
    """The ids of all documents in a file, found by row without holding them."""

    def __init__(self, folder: Path) -> None:
        self._text, self._ends = folder / "ids.txt", folder / "ids.bin"
        self._size = 0

    def append(self, ids: list[str]) -> None:
        """Adds the ids of the next rows."""
        pieces = [mark.encode() for mark in ids]
        ends = self._size + np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
        with disk(self._text), open(self._text, "ab") as text, open(self._ends, "ab") as stream:
            text.write(b"".join(pieces))
            ends.tofile(stream)
        self._size = int(ends[-1]) if len(ends) else self._size

    def get(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The ids of some rows."""
        found = []
        with open(self._text, "rb") as text, open(self._ends, "rb") as stream:
            for row in rows.tolist():
                stream.seek(max(row - 1, 0) * 8)
                start, end = (
                    (0, *np.fromfile(stream, np.int64, 1)) if row == 0 else np.fromfile(stream, np.int64, 2)
                )
                text.seek(start)
                found.append(text.read(end - start).decode())
        return found
