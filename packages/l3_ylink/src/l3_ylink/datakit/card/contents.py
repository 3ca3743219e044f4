"""What a finished run holds, for a card: manifests, and what of each source and language was kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq

from l3_ylink._kit.problems import NotFound
from l3_ylink.datakit.export import INSTRUCTIONS, MANIFEST, PREFERENCES, TEXT_FOLDER
from l3_ylink.datakit.plan import RunPlan
from l3_ylink.documents import DatasetManifest, Source

from .licences import RollUp, roll_up


@dataclass(frozen=True)
class SourceShare:
    """One source: what was read of it and what was kept."""

    name: str
    licence: str
    url: str | None
    read: int
    read_bytes: int
    kept: int
    kept_bytes: int


@dataclass(frozen=True)
class Contents:
    """A finished run as a card shows it."""

    folder: Path
    plan: RunPlan
    text: DatasetManifest
    tokens: DatasetManifest | None
    instructions: DatasetManifest | None
    preferences: DatasetManifest | None = None
    sources: list[SourceShare] = field(default_factory=list)
    languages: dict[str, int] = field(default_factory=dict)

    @property
    def licences(self) -> RollUp:
        """The licences of what was kept, put together."""
        kept = [source.licence for source in self.sources if source.kept]
        samples = [*self.instruction_sources, *self.preference_sources]
        return roll_up([*kept, *(source.licence for source in samples)])

    @property
    def instruction_sources(self) -> list[Source]:
        """The files of instructions."""
        return self.instructions.sources if self.instructions else []

    @property
    def preference_sources(self) -> list[Source]:
        """The files of preferences."""
        return self.preferences.sources if self.preferences else []

    @property
    def kept_bytes(self) -> int:
        """Bytes (UTF-8) of the kept texts."""
        return sum(source.kept_bytes for source in self.sources)


def read_contents(folder: Path) -> Contents:
    """The contents of a finished run; `NotFound` where there is none."""
    plan = RunPlan.load(folder)
    text = _manifest(folder / TEXT_FOLDER)
    if text is None:
        raise NotFound(
            "the run is not finished", field=str(folder), do="run `ylink data run` again: it goes on"
        )
    count, size, languages = _kept(folder / TEXT_FOLDER, text)
    sources = [
        SourceShare(
            source.name, source.licence, source.url, source.documents, source.bytes, count[source.name],
            size[source.name],
        )
        for source in text.sources
    ]  # fmt: skip
    return Contents(
        folder=folder,
        plan=plan,
        text=text,
        tokens=_manifest(folder),
        instructions=_manifest(folder / INSTRUCTIONS),
        preferences=_manifest(folder / PREFERENCES),
        sources=sources,
        languages=dict(languages.most_common()),
    )


def _manifest(folder: Path) -> DatasetManifest | None:
    path = folder / MANIFEST
    return DatasetManifest.read(path) if path.exists() else None


def _kept(folder: Path, text: DatasetManifest) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Documents and text bytes by source, and documents by language, of the shards that hold rows."""
    count, size, languages = Counter[str](), Counter[str](), Counter[str]()
    for shard in text.shards:
        path = folder / shard.uri
        if not shard.rows:
            continue
        if path.suffix == ".parquet":
            columns = ["source", "text", *(["language"] if "language" in text.columns else [])]
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=columns):
                    sources = batch.column("source").to_pylist()
                    count.update(sources)
                    lengths = pc.binary_length(batch.column("text")).to_pylist()
                    for source, length in zip(sources, lengths, strict=True):
                        size[source] += length
                    languages.update(batch.column("language").to_pylist() if len(columns) > 2 else ())
        elif path.suffix == ".jsonl":
            with open(path, "rb") as stream:
                for line in stream:
                    row = orjson.loads(line)
                    count[row["source"]] += 1
                    size[row["source"]] += len(row["text"].encode())
                    languages.update([row["language"]] if "language" in row else ())
    return count, size, languages
