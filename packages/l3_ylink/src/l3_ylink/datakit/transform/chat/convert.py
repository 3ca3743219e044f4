"""A file of samples in one form becomes a file in another; rejects go beside it with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import orjson

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.store import write_whole

from .read import Read, read_samples
from .sample import Repeated, RowError
from .write import FORMS


class Converted(NamedTuple):
    """Rows read and used, lines written, rows whose turns were joined, and why others were rejected."""

    read: int
    used: int
    written: int
    merged: int
    rejected: dict[str, int]


def convert_samples(
    source: Path, target: Path, form: str, *, rejects: Path, longest: int = 0, repeated: Repeated = "join"
) -> Converted:
    """Reads `source` in whatever form its rows are and writes `target` and `rejects`, which appear whole."""
    if form not in FORMS:
        raise BadInput(f"no form {form!r}", field="to", do=f"use one of {', '.join(FORMS)}")
    if source.resolve() in (target.resolve(), rejects.resolve()):
        raise BadInput("would be overwritten", field=str(source), do="choose another --out")
    rows = read_samples(source, longest=longest, repeated=repeated)
    return write_samples(((row, row.reason) for row in rows), target, form, rejects=rejects)


def write_samples(rows: Iterable[tuple[Read, str]], target: Path, form: str, *, rejects: Path) -> Converted:
    """Writes rows in a form; a row with a reason, or that the form cannot hold, goes to `rejects`.

    There it has its number, the reason, and the row as it was.
    """
    used = written = merged = number = 0
    reasons: Counter[str] = Counter()

    def write(good: Path, bad: Path) -> None:
        nonlocal used, written, merged, number
        with open(good, "wb") as kept, open(bad, "wb") as dropped:
            for row, wrong in rows:
                number += 1
                lines, reason = ([], wrong) if wrong else _lines(row, form)
                if reason:
                    reasons[reason] += 1
                    about = {"line": number, "reason": reason, "original": row.original}
                    dropped.write(orjson.dumps(about) + b"\n")
                    continue
                kept.writelines(lines)
                used, written = used + 1, written + len(lines)
                merged += row.sample is not None and row.sample.merged

    write_whole(target, lambda good: write_whole(rejects, lambda bad: write(good, bad)))
    return Converted(number, used, written, merged, dict(sorted(reasons.items())))


def _lines(row: Read, form: str) -> tuple[list[bytes], str]:
    assert row.sample is not None
    try:
        return [orjson.dumps(value) + b"\n" for value in FORMS[form](row.sample)], ""
    except RowError as error:
        return [], str(error)
