"""The step that takes out exact runs of words that an earlier text has already, wherever they begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.documents.spill import position_key
from l3_ylink.datakit.quality.units import split_units

from .base import GlobalStep, Ruling, Table
from .lines import CUT, cut_or_drop, rank_in_group

if TYPE_CHECKING:
    from l3_ylink.datakit.documents.spill import Spill
    from l3_ylink.datakit.documents.store import Signals
    from l3_ylink.datakit.purify.substrings import UnitFile

I64 = npt.NDArray[np.int64]
Records = npt.NDArray[Any]

RUN = np.dtype([("key", np.uint64), ("row", np.int64), ("place", np.uint32)])
TEXTS_AT_ONCE = 64


class Substrings(GlobalStep):
    """Takes out runs of words (Chinese: characters) that an earlier text, or the same one, has already.

    Every run of at least `least_units` equal units is found, whatever is around it.
    """

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"most_cut"})
    RECORD: ClassVar[np.dtype[Any]] = RUN

    step: Literal["substrings"] = "substrings"
    least_units: int = Field(
        50, ge=10, le=10_000, description="words (Chinese: characters) of the shortest run"
    )
    most_cut: float = Field(
        0.8, gt=0, le=1, description="share of a text from which it is dropped whole when so much goes"
    )

    def measure(self, batch: Batch) -> None:
        from l3_ylink.datakit.purify.substrings import anchors

        batch.columns["anchors"] = [some.tobytes() for some in anchors(batch.units, self.least_units)]

    def collect(self, table: Table, alive: I64) -> Records:
        from l3_ylink.datakit.purify.substrings import ANCHOR

        stored = table.columns["anchors"]
        mine = [stored[row] for row in alive.tolist()]
        found = np.frombuffer(b"".join(mine), ANCHOR)
        records = np.empty(len(found), RUN)
        records["key"], records["place"] = found["hash"], found["place"]
        records["row"] = np.repeat(alive + table.first, [len(some) // ANCHOR.itemsize for some in mine])
        return records

    def resolve(self, spill: Spill, ruling: Ruling) -> None:
        from l3_ylink.datakit.purify.substrings import UnitFile

        count = len(ruling.signals)
        wanted = np.zeros(count, bool)
        places = ruling.spill(RUN)
        for part in spill.parts("key"):
            again = _repeated(part["key"])
            wanted[part["row"][again]] = True
            places.add(_by_row(part[again], count))
        runs, later, gone = ruling.spill(RUN), ruling.spill(RUN), ruling.spill(CUT)
        with ruling.scratch() as folder:
            stored = UnitFile(folder)
            _store_units(ruling.signals, wanted, stored)
            stored.flush()
            for part in places.parts("row", "place"):
                for some in _runs(part, stored, self.least_units):
                    runs.add(some)
            for part in runs.parts("key", "row", "place"):
                later.add(_by_row(part[rank_in_group(part["key"]) > 0], count))
            for part in later.parts("row", "place"):
                gone.add(_spans(part, stored, self.least_units, count))
        cut_or_drop(gone, ruling, "repeated_run", self.most_cut)


def _repeated(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    same = np.append(keys[1:] == keys[:-1], [False])
    again: npt.NDArray[np.bool_] = same | np.append([False], same[:-1])
    return again


def _by_row(part: Records, count: int) -> Records:
    found: Records = part.copy()
    found["key"] = position_key(found["row"], count)
    return found


def _rows(part: Records) -> Iterator[tuple[int, Records]]:
    edges = np.flatnonzero(np.append([True], part["row"][1:] != part["row"][:-1])).tolist()
    for low, high in zip(edges, [*edges[1:], len(part)], strict=True):
        yield int(part["row"][low]), part[low:high]


def _runs(part: Records, stored: UnitFile, least: int) -> Iterator[Records]:
    """All runs of the least length around the repeated anchors of some documents, one document at a time."""
    from l3_ylink.datakit.purify.substrings import windows

    for row, some in _rows(part):
        values, starts = windows(stored.hashes(row), some["place"].astype(np.int64), least)
        records = np.empty(len(values), RUN)
        records["key"], records["row"], records["place"] = values, row, starts
        yield records


def _spans(part: Records, stored: UnitFile, least: int, count: int) -> Records:
    """The repeated runs of some documents as spans of characters that do not overlap."""
    found = []
    for row, some in _rows(part):
        start, end = stored.spans(row)
        place = some["place"].astype(np.int64)
        new = np.append([True], place[1:] > place[:-1] + least)
        begin = place[new]
        stop = place[np.append(new[1:], [True])] + least
        records = np.zeros(len(begin), CUT)
        records["row"], records["start"], records["end"] = row, start[begin], end[stop - 1]
        records["size"] = end[-1]
        found.append(records)
    records = np.concatenate(found)
    records["key"] = position_key(records["row"], count)
    return records


def _store_units(signals: Signals, wanted: npt.NDArray[np.bool_], into: UnitFile) -> None:
    for number in range(len(signals.blocks)):
        first = int(signals.first[number])
        rows = np.flatnonzero(wanted[first : int(signals.first[number + 1])])
        if not len(rows):
            continue
        texts = signals.block_texts(number, rows.tolist())
        for start in range(0, len(rows), TEXTS_AT_ONCE):
            units = split_units(texts[start : start + TEXTS_AT_ONCE])
            for text, row in enumerate(rows[start : start + TEXTS_AT_ONCE].tolist()):
                low, high = int(units.first_unit[text]), int(units.first_unit[text + 1])
                shift = units.text_start[text]
                into.add(
                    first + row,
                    units.hash[low:high],
                    units.start[low:high] - shift,
                    units.end[low:high] - shift,
                )
