"""Whole files by one call: text to tokens, a shuffle by what the file is, text from one form to another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from l3_ylink._kit.problems import BadInput

from .encoder import encode_documents, load_encoder
from .megatron import TokenFile, TokenWriter, token_type, with_suffix
from .rows import (
    line_tables,
    lines_of,
    parquet_tables,
    token_tables,
    write_lines,
    write_parquet,
    write_token_tables,
)
from .shards import SUFFIXES, describe_arrow, read_texts, write_shard
from .shuffle import shuffled

PROBED = 64
SHARD_ROWS = 10_000
LINES = (".jsonl", ".ndjson")
PACKED = (".gz", ".zst")


class Tokenised(NamedTuple):
    """What was written, and which program encoded it."""

    documents: int
    tokens: int
    engine: str


def tokenise_files(
    paths: Sequence[Path], tokenizer: Path, prefix: Path, *, end: str, field: str = "text"
) -> Tokenised:
    """Writes the texts of files as one token file, each closed by the token `end`.

    JSONL (plain, gz, zst) and Parquet give the field `field`, tars and Arrow shards their texts, any other
    file is one text.  `BadInput` names a row without it.
    """
    texts = texts_of(paths, field)
    sample = list(islice(texts, PROBED))
    encoder = load_encoder(tokenizer, sample=sample)
    token = encoder.token(end)
    if token is None:
        raise BadInput(f"has no token {end!r}", field=str(tokenizer), do="give another --end")
    with TokenWriter(prefix, token_type(encoder.vocabulary)) as writer:
        for part in (sample, texts):
            for encoded in encode_documents(encoder, part, token):
                writer.write(*encoded)
    return Tokenised(writer.documents, writer.tokens, encoder.engine)


def texts_of(paths: Iterable[Path], field: str) -> Iterator[str]:
    """The texts of files, one after the other."""
    for path in paths:
        kind = kind_of(path)
        if kind in LINES:
            yield from _from_lines(path, field)
        elif kind == ".parquet":
            yield from _from_parquet(path, field)
        elif kind in (".tar", ".arrow"):
            yield from read_texts(path)
        else:
            try:
                yield path.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise BadInput("cannot be read as UTF-8", field=str(path), why=str(error)) from error


def kind_of(path: Path) -> str:
    """The ending that tells what a file is, without that of its packing."""
    return Path(path.stem).suffix if path.suffix in PACKED else path.suffix


def _from_lines(path: Path, field: str) -> Iterator[str]:
    for number, line in enumerate(lines_of(path), 1):
        try:
            text = orjson.loads(line)[field]
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(f"row {number} has no field {field!r}", field=str(path), why=str(error)) from error
        if not isinstance(text, str):
            raise BadInput(f"row {number}: {field!r} is not text", field=str(path))
        yield text


def _from_parquet(path: Path, field: str) -> Iterator[str]:
    for table in parquet_tables([path]):
        if field not in table.column_names:
            names = ", ".join(table.column_names)
            raise BadInput(f"has no column {field!r}", field=str(path), do=f"there are: {names}")
        for number, text in enumerate(table.column(field).to_pylist(), 1):
            if not isinstance(text, str):
                raise BadInput(f"row {number}: {field!r} is not text", field=str(path))
            yield text


def shuffle_files(paths: Sequence[Path], out: Path, seed: int, *, memory: int) -> int:
    """Writes the rows of files of one kind in random order, the same for any memory; returns how many.

    JSONL lines and token files (named without ending) keep their bytes, Parquet its columns.  Temporary files
    as large as the input lie beside `out`.
    """
    kinds = {_row_kind(path) for path in paths}
    if len(kinds) != 1:
        raise BadInput(f"the files are of {len(kinds)} kinds", field="files", do="shuffle one kind at a time")
    if out.resolve() in {path.resolve() for path in paths}:
        raise BadInput("would be overwritten", field=str(out), do="choose another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    kind = kinds.pop()
    options: dict[str, Any] = {"memory": memory}
    if kind == "lines":
        return write_lines(out, shuffled(line_tables(paths), seed, out.parent, **options))
    if kind == "parquet":
        return write_parquet(out, shuffled(parquet_tables(paths), seed, out.parent, **options))
    types = {TokenFile(path).dtype for path in paths}
    if len(types) > 1:
        raise BadInput("the token files hold different types", field="files", do="use one tokenizer")
    tables = shuffled(token_tables(paths), seed, out.parent, **options)
    return write_token_tables(out, tables, types.pop())[0]


def _row_kind(path: Path) -> str:
    if with_suffix(path, ".idx").exists():
        return "tokens"
    kinds = {**dict.fromkeys(LINES, "lines"), ".parquet": "parquet"}
    if kind_of(path) not in kinds or not path.exists():
        raise BadInput(
            "is not JSONL, Parquet or a token file", field=str(path), do="name a token file without .bin"
        )
    return kinds[kind_of(path)]


def convert_texts(paths: Sequence[Path], folder: Path, form: str, *, field: str = "text") -> int:
    """Writes the texts of files as shards of 10,000 in another form; returns how many there were."""
    if form not in SUFFIXES:
        raise BadInput(f"no form {form!r}", field="to", do=f"use one of {', '.join(SUFFIXES)}")
    if folder.exists() and any(folder.iterdir()):
        raise BadInput("is not empty", field=str(folder), do="choose another --out")
    texts = texts_of(paths, field)
    count = number = 0
    names: list[str] = []
    while batch := list(islice(texts, SHARD_ROWS)):
        marks = [str(count + row) for row in range(len(batch))]
        names.append(write_shard(folder, number, form, {"id": marks, "text": batch}).name)
        count, number = count + len(batch), number + 1
    if not count:
        raise BadInput("there are no texts", field="files")
    if form == "arrow":
        describe_arrow(folder, ["id", "text"], dict.fromkeys(names, f"sha256:{count:016x}"))
    return count
