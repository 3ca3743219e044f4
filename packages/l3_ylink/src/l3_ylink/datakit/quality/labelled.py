"""Labelled rows: JSONL with a text and a label, plain or gzip."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from l3_ylink._kit.problems import BadInput


class Example(NamedTuple):
    """A text and its label."""

    text: str
    label: str


def rows_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL file with their line numbers; a `BadInput` names the line at fault."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, _row(line, path, number)
    except (OSError, EOFError) as error:
        raise BadInput("cannot be read", field=str(path), why=str(error), do="check the path") from error


def _row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadInput(f"line {number} is not JSON: {error}", field=str(path)) from error
    if not isinstance(row, dict):
        raise BadInput(f"line {number} is not an object", field=str(path))
    return row


def texts_of(path: Path, text_field: str = "text") -> Iterator[tuple[int, dict[str, Any], str]]:
    """Rows with their line numbers and texts; a `BadInput` names the line that has none."""
    for number, row in rows_of(path):
        text = row.get(text_field)
        if not isinstance(text, str):
            raise BadInput(f"line {number} has no text", field=f"{path}: {text_field}", do="name its field")
        yield number, row, text


def read_examples(path: Path, text_field: str = "text", label_field: str = "label") -> list[Example]:
    """Labelled rows; labels may be texts, whole numbers or truth values."""
    found = []
    for number, row, text in texts_of(path, text_field):
        label = row.get(label_field)
        if not isinstance(label, str | int) or label == "":
            raise BadInput(f"line {number} has no label", field=f"{path}: {label_field}", do="name its field")
        found.append(Example(text, str(label)))
    return found
