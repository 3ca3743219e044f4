"""Shards of text in the forms that trainers load: Parquet, JSONL, WebDataset tars, Hugging Face's Arrow.

| form | file | loaded by |
|---|---|---|
| parquet | `part-N.parquet` | `datasets.load_dataset("parquet", …)`, anything that reads Parquet |
| jsonl | `part-N.jsonl` | anything |
| webdataset | `part-N.tar`: for each document `KEY.txt` and `KEY.json` | `webdataset.WebDataset`, `load_dataset("webdataset", …)` |
| arrow | `part-N.arrow` with `dataset_info.json` and `state.json` beside them | `datasets.load_from_disk(folder)` |

The same columns give the same bytes: tars carry no times, owners or names of machines.
"""  # noqa: E501 (a table)

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from l3_ylink._kit.files import atomic_write
from l3_ylink.datakit.documents import columns
from l3_ylink.datakit.documents.store import disk, write_whole

Values = Mapping[str, Sequence[str]]

SUFFIXES = {"parquet": "parquet", "jsonl": "jsonl", "webdataset": "tar", "arrow": "arrow"}
STATE, INFO = "state.json", "dataset_info.json"


def write_shard(folder: Path, number: int, form: str, values: Values) -> Path:
    """Writes shard `number` of columns of strings, among them `text`; returns its file."""
    path = folder / f"part-{number:06d}.{SUFFIXES[form]}"
    WRITERS[form](path, values)
    return path


def read_texts(path: Path) -> Iterator[str]:
    """The texts of a shard, in order."""
    yield from READERS[path.suffix](path)


def _write_parquet(path: Path, values: Values) -> None:
    table = columns.table(values)
    write_whole(path, lambda neighbour: pq.write_table(table, neighbour, compression="zstd"))


def _write_jsonl(path: Path, values: Values) -> None:
    rows = zip(*values.values(), strict=True)
    lines = b"".join(orjson.dumps(dict(zip(values, row, strict=True))) + b"\n" for row in rows)
    with disk(path):
        atomic_write(path, lines)


def _write_tar(path: Path, values: Values) -> None:
    """Keys have no dots, which WebDataset takes for the beginning of an ending."""
    others = [name for name in values if name != "text"]
    shard = path.stem.removeprefix("part-")

    def write(neighbour: Path) -> None:
        with tarfile.open(neighbour, "w", format=tarfile.USTAR_FORMAT) as tar:
            for row, text in enumerate(values["text"]):
                about = {name: values[name][row] for name in others}
                for ending, data in (("json", orjson.dumps(about)), ("txt", text.encode("utf-8", "replace"))):
                    entry = tarfile.TarInfo(f"{shard}{row:08d}.{ending}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))

    write_whole(path, write)


def _write_arrow(path: Path, values: Values) -> None:
    table = columns.table(values)

    def write(neighbour: Path) -> None:
        with pa.ipc.new_stream(str(neighbour), table.schema) as stream:
            stream.write_table(table)

    write_whole(path, write)


def describe_arrow(folder: Path, names: Sequence[str], shards: Mapping[str, str]) -> list[Path]:
    """Writes what makes a folder of Arrow shards (name → digest) a data set for `datasets`."""
    features = {name: {"dtype": "large_string", "_type": "Value"} for name in names}
    state: dict[str, Any] = {
        "_data_files": [{"filename": name} for name in shards],
        "_fingerprint": next(iter(shards.values()), "sha256:")[7:23],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    for name, value in ((INFO, info), (STATE, state)):
        with disk(folder):
            atomic_write(folder / name, json.dumps(value, indent=1))
    return [folder / INFO, folder / STATE]


def _parquet_texts(path: Path) -> Iterator[str]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1024, columns=["text"]):
            yield from batch.column(0).to_pylist()


def _jsonl_texts(path: Path) -> Iterator[str]:
    with open(path, "rb") as stream:
        for line in stream:
            yield orjson.loads(line)["text"]


def _tar_texts(path: Path) -> Iterator[str]:
    with tarfile.open(path) as tar:
        for entry in tar:
            if entry.name.endswith(".txt"):
                content = tar.extractfile(entry)
                assert content is not None
                yield content.read().decode()


def _arrow_texts(path: Path) -> Iterator[str]:
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield from batch.column("text").to_pylist()


WRITERS: dict[str, Callable[[Path, Values], None]] = {
    "parquet": _write_parquet,
    "jsonl": _write_jsonl,
    "webdataset": _write_tar,
    "arrow": _write_arrow,
}
READERS: dict[str, Callable[[Path], Any]] = {
    ".parquet": _parquet_texts,
    ".jsonl": _jsonl_texts,
    ".tar": _tar_texts,
    ".arrow": _arrow_texts,
}
