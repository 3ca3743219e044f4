"""What a file is, by its name: a document, or many of them in rows or records."""

from __future__ import annotations

from pathlib import PurePosixPath

from l3_ylink.datakit.fileqa.extract import format_of as document_format

from .places import PACKED

MANY = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".warc": "warc",
    ".wet": "warc",
}


def format_of(name: str) -> str:
    """jsonl, parquet, csv, warc (WET too), or the format of a single document."""
    return MANY.get(bare(name).suffix) or document_format(name)


def bare(name: str) -> PurePosixPath:
    """The name without the ending of its packing."""
    path = PurePosixPath(name.lower())
    return path.with_suffix("") if path.suffix in PACKED else path


def is_packed(name: str) -> bool:
    """Whether a file is packed as a whole."""
    return PurePosixPath(name.lower()).suffix in PACKED
