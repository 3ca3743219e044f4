"""The steps that look for what is there already: exact and near duplicates."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import xxhash
from pydantic import Field, model_validator

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.purify.near import band_keys, find, shingles, signatures
from l3_ylink.datakit.quality.units import U64, split_units

from .base import Step, Table, Verdicts

TEXTS_AT_ONCE = 64


class Exact(Step):
    """Texts equal but for white space: the first one, in the order of the input, stays."""

    step: Literal["exact"] = "exact"

    def measure(self, batch: Batch) -> None:
        batch.columns["text_hash"] = [
            xxhash.xxh3_128_hexdigest(" ".join(text.split())) for text in batch.texts
        ]

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        first: dict[str, int] = {}
        dropped, kept = [], []
        for row in np.flatnonzero(verdicts.alive).tolist():
            original = first.setdefault(table.columns["text_hash"][row], row)
            if original != row:
                dropped.append(row)
                kept.append(original)
        verdicts.drop(
            np.asarray(dropped, np.int64),
            "same_text",
            value=1.0,
            threshold=1.0,
            other=np.asarray(kept, np.int64),
        )


class Near(Step):
    """Similar texts by MinHash-LSH; each drop is certain by the texts' own Jaccard similarity.

    With b bands of r rows, two texts of similarity s meet with probability 1-(1-s^r)^b: 14 bands of 8
    rows meet half of the pairs at 0.72.  Of similar texts the best stays: long, undamaged, not repetitive.
    """

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"threshold"})

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
        batch.columns["signature"] = [row.tobytes() for row in rows]

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        alive = np.flatnonzero(verdicts.alive)
        if not len(alive):
            return
        raw = b"".join(table.columns["signature"][row] for row in alive.tolist())
        keys = band_keys(np.frombuffer(raw, np.uint32).reshape(len(alive), -1), self.bands)
        order = np.lexsort((alive, -preference(table)[alive]))
        pairs = find(keys, order.tolist(), lambda rows: self._shingles(table, alive, rows), self.threshold)
        for pair in sorted(pairs):
            verdicts.drop(
                alive[[pair.dropped]],
                "similar_text",
                value=pair.similarity,
                threshold=self.threshold,
                other=int(alive[pair.kept]),
            )

    def _shingles(self, table: Table, alive: npt.NDArray[np.int64], rows: list[int]) -> dict[int, U64]:
        sets: dict[int, U64] = {}
        for start in range(0, len(rows), TEXTS_AT_ONCE):
            some = rows[start : start + TEXTS_AT_ONCE]
            texts = table.texts([int(alive[row]) for row in some])
            units = split_units([texts[int(alive[row])] for row in some])
            hashes, text_of = shingles(units, self.shingle)
            edges = np.searchsorted(text_of, np.arange(len(some) + 1))
            for place, row in enumerate(some):
                sets[row] = np.unique(hashes[edges[place] : edges[place + 1]])
        return sets


def preference(table: Table) -> npt.NDArray[np.float64]:
    """How much a document is worth keeping among similar ones: length, less damage and repetition."""
    size = np.maximum(table.numbers("units"), table.numbers("characters") / 8).astype(np.float64)
    faults = 20 * table.numbers("damaged_share") + 2 * table.numbers("repeated_lines")
    worth: npt.NDArray[np.float64] = np.round(np.log2(1 + size) - faults.astype(np.float64), 6)
    return worth
