"""The steps that look for what is there already: exact and near duplicates."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import xxhash
from pydantic import Field, model_validator

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.documents.spill import position_key
from l3_ylink.datakit.purify.near import (
    EDGE,
    PAIR,
    ShingleFile,
    band_keys,
    edges_of,
    leave_best,
    pairs_of,
    rank_of,
    shingles,
    signatures,
)
from l3_ylink.datakit.quality.units import split_units

from .base import GlobalStep, Ruling, Table

if TYPE_CHECKING:
    from l3_ylink.datakit.documents.spill import Spill

TEXTS_AT_ONCE = 64


class Exact(GlobalStep):
    """Texts equal but for white space: the first one, in the order of the input, stays."""

    COMPARES: ClassVar[bool] = True
    RECORD: ClassVar[np.dtype[Any]] = np.dtype(
        [("key", np.uint64), ("rest", np.uint64), ("new", np.uint8), ("row", np.int64)]
    )

    step: Literal["exact"] = "exact"

    def measure(self, batch: Batch) -> None:
        batch.columns["text_hash"] = [
            xxhash.xxh3_128_digest(" ".join(text.split()).encode("utf-8", "surrogatepass"))
            for text in batch.texts
        ]

    def collect(self, table: Table, alive: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        hashes = np.frombuffer(b"".join(table.columns["text_hash"]), ">u8").reshape(-1, 2)[alive]
        records = np.empty(len(alive), self.RECORD)
        records["key"], records["rest"], records["row"] = hashes[:, 0], hashes[:, 1], alive + table.first
        records["new"] = not table.earlier
        return records

    def resolve(self, spill: Spill, ruling: Ruling) -> None:
        for part in spill.parts("key", "rest", "new", "row"):
            new = np.ones(len(part), bool)
            new[1:] = (part["key"][1:] != part["key"][:-1]) | (part["rest"][1:] != part["rest"][:-1])
            original = part["row"][np.flatnonzero(new)[np.cumsum(new) - 1]]
            again = ~new
            ruling.drop(part["row"][again], "same_text", value=1.0, threshold=1.0, other=original[again])


class Near(GlobalStep):
    """Similar texts by MinHash-LSH; each drop is certain by the texts' own Jaccard similarity.

    With b bands of r rows, two texts of similarity s meet with probability 1-(1-s^r)^b: 14 bands of 8
    rows meet half of the pairs at 0.72.  Of similar texts the best stays: long, undamaged, not repetitive.
    """

    COMPARES: ClassVar[bool] = True
    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"threshold"})
    RECORD: ClassVar[np.dtype[Any]] = np.dtype([("key", np.uint64), ("rank", np.uint64), ("row", np.int64)])

    step: Literal["near"] = "near"
    bands: int = Field(14, ge=1, le=256)
    rows: int = Field(8, ge=1, le=64)
    shingle: int = Field(5, ge=1, le=50, description="units (words, or Chinese characters) in a row")
    threshold: float = Field(
        0.7, gt=0, le=1, description="Jaccard similarity from which a text is a duplicate"
    )

    @model_validator(mode="after")
    def _size(self) -> Self:
        if self.bands * self.rows > 1024:
            raise ValueError("bands x rows must be at most 1024")
        return self

    def measure(self, batch: Batch) -> None:
        rows = signatures(batch.units, self.shingle, self.bands * self.rows)
        batch.columns["bands"] = [keys.tobytes() for keys in band_keys(rows, self.bands)]
        batch.columns.setdefault("units", np.diff(batch.units.first_unit))

    def collect(self, table: Table, alive: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        alive = alive[table.numbers("units")[alive] > 0]
        keys = np.frombuffer(b"".join(table.columns["bands"]), np.uint64).reshape(-1, self.bands)[alive]
        records = np.empty(keys.shape, self.RECORD)
        records["key"] = keys
        records["rank"] = 0 if table.earlier else rank_of(preference(table)[alive])[:, None]
        records["row"] = (alive + table.first)[:, None]
        return records.ravel()

    def resolve(self, spill: Spill, ruling: Ruling) -> None:
        met = ruling.spill(PAIR)
        for part in spill.parts("key", "rank", "row"):
            met.add(pairs_of(part))
        compared = np.zeros(ruling.earlier.end, bool)
        pairs = ruling.spill(PAIR)
        for part in met.parts("better", "worse"):
            new = np.ones(len(part), bool)
            new[1:] = (part["better"][1:] != part["better"][:-1]) | (part["worse"][1:] != part["worse"][:-1])
            some = part[new]
            some["key"] = position_key(some["better"], len(compared))
            compared[some["better"]] = compared[some["worse"]] = True
            pairs.add(some)
        edges = ruling.spill(EDGE)
        with ruling.scratch() as folder, contextlib.closing(ShingleFile(folder)) as shingle_file:
            self._shingle(ruling, compared, shingle_file)
            for part in pairs.parts("better", "worse"):
                edges.add(edges_of(part, shingle_file, self.threshold))
        gone = np.zeros(len(compared), bool)
        for part in edges.parts("key", "worse", "better"):
            left = leave_best(part, gone)
            ruling.drop(
                left["worse"],
                "similar_text",
                value=left["similarity"],
                threshold=self.threshold,
                other=left["better"],
            )

    def _shingle(self, ruling: Ruling, wanted: npt.NDArray[np.bool_], into: ShingleFile) -> None:
        """Stores the shingles of the wanted documents."""
        signals = ruling.signals
        for number in range(len(signals.blocks)):
            first = int(signals.first[number])
            rows = np.flatnonzero(wanted[first : int(signals.first[number + 1])])
            if len(rows):
                self._add(first + rows, signals.block_texts(number, rows.tolist()), into)
        for rows, texts in ruling.earlier.wanted(wanted):
            self._add(rows, texts, into)
        into.flush()

    def _add(self, rows: npt.NDArray[np.int64], texts: list[str], into: ShingleFile) -> None:
        for start in range(0, len(rows), TEXTS_AT_ONCE):
            some = rows[start : start + TEXTS_AT_ONCE]
            hashes, edges = shingles(split_units(texts[start : start + TEXTS_AT_ONCE]), self.shingle)
            for place, row in enumerate(some.tolist()):
                into.add(row, hashes[edges[place] : edges[place + 1]])


def preference(table: Table) -> npt.NDArray[np.float64]:
    """How much a document is worth keeping among similar ones: length, less damage and repetition."""
    size = np.maximum(table.numbers("units"), table.numbers("characters") / 8).astype(np.float64)
    faults = 20 * table.numbers("damaged_share") + 2 * table.numbers("repeated_lines")
    worth: npt.NDArray[np.float64] = np.round(np.log2(1 + size) - faults.astype(np.float64), 6)
    return worth
