"""A file of samples in one form becomes a file in another; rejects go beside it with their reasons."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import orjson

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.store import write_whole

from .read import Read, read_samples
from .sample import Repeated, RowError
from .write import FORMS


class Converted(NamedTuple):
    """How many rows were read and written, how many had turns joined, and why others were rejected."""

    read: int
    written: int
    merged: int
    rejected: dict[str, int]


def convert_samples(
    source: Path, target: Path, form: str, *, rejects: Path, longest: int = 0, repeated: Repeated = "join"
) -> Converted:
    """Reads `source` in whatever form its rows are and writes `target`; both files appear whole.

    `rejects` gets every row that was not written: its line, the reason, and the row as it was.
    """
    if form not in FORMS:
        raise BadInput(f"no form {form!r}", field="to", do=f"use one of {', '.join(FORMS)}")
    if source.resolve() in (target.resolve(), rejects.resolve()):
        raise BadInput("would be overwritten", field=str(source), do="choose another --out")
    read = written = merged = 0
    reasons: Counter[str] = Counter()

    def write(good: Path, bad: Path) -> None:
        nonlocal read, written, merged
        with open(good, "wb") as kept, open(bad, "wb") as dropped:
            for number, row in enumerate(read_samples(source, longest=longest, repeated=repeated), 1):
                lines, reason = _lines(row, form)
                kept.writelines(lines)
                read, written = number, written + len(lines)
                merged += bool(lines) and row.sample is not None and row.sample.merged
                if reason:
                    reasons[reason] += 1
                    about = {"line": number, "reason": reason, "original": row.original}
                    dropped.write(orjson.dumps(about) + b"\n")

    write_whole(target, lambda good: write_whole(rejects, lambda bad: write(good, bad)))
    return Converted(read, written, merged, dict(sorted(reasons.items())))


def _lines(row: Read, form: str) -> tuple[list[bytes], str]:
    if row.sample is None:
        return [], row.reason
    try:
        return [orjson.dumps(value) + b"\n" for value in FORMS[form](row.sample)], ""
    except RowError as error:
        return [], str(error)
