"""Texts to train on, from what people have: JSONL (plain or gzip), plain text, Parquet, or a run's text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from l3_ylink._kit.problems import BadInput

from .labelled import texts_of

ROWS_AT_ONCE = 1_000
SUFFIXES = (".jsonl", ".jsonl.gz", ".txt", ".parquet")


def read_texts(paths: Sequence[Path], text_field: str = "text") -> Iterator[str]:
    """The texts of files, or of all such files below folders, one by one; a line of a .txt file is a text."""
    for path in _files(paths):
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            yield from (text for _, _, text in texts_of(path, text_field))
        elif path.suffix == ".parquet":
            yield from _parquet(path, text_field)
        else:
            yield from _lines(path)


def _files(paths: Sequence[Path]) -> list[Path]:
    found = []
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        mine = [file for file in inside if file.name.endswith(SUFFIXES) and file.is_file()]
        if not mine:
            raise BadInput(
                "holds no texts", field=str(path), do=f"give files or a folder of {', '.join(SUFFIXES)}"
            )
        found += mine
    return found


def _parquet(path: Path, text_field: str) -> Iterator[str]:
    try:
        with pq.ParquetFile(path) as file:
            if text_field not in file.schema_arrow.names:
                raise BadInput(f"has no column {text_field}", field=str(path), do="name its column")
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=[text_field]):
                yield from (text for text in batch.column(0).to_pylist() if isinstance(text, str))
    except pa.ArrowException as error:
        raise BadInput("is no readable Parquet file", field=str(path), why=str(error)) from error


def _lines(path: Path) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8") as stream:
            yield from (line.rstrip("\n") for line in stream if line.strip())
    except UnicodeDecodeError as error:
        raise BadInput("is not UTF-8", field=str(path), why=str(error)) from error
