"""The steps that take repeated pieces out of texts: lines seen before, and a site's boilerplate.

What is taken out is a cut: the stored text stays whole, the exported one lacks the span.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import xxhash
from pydantic import Field

from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.documents.spill import position_key
from l3_ylink.datakit.purify.urls import site_of

from .base import GlobalStep, Ruling, Table

if TYPE_CHECKING:
    from l3_ylink.datakit.documents.spill import Spill

I64 = npt.NDArray[np.int64]
Records = npt.NDArray[Any]

CUT = np.dtype(
    [("key", np.uint64), ("row", np.int64), ("start", np.uint32), ("end", np.uint32), ("size", np.uint32)]
)
SITE = np.dtype(
    [
        ("key", np.uint64),
        ("site", np.uint64),
        ("row", np.int64),
        ("start", np.uint32),
        ("end", np.uint32),
        ("size", np.uint32),
        ("pages", np.uint32),
    ]
)
ODD = np.uint64(0x9E3779B97F4A7C15)


class Lines(GlobalStep):
    """Takes lines (paragraphs, sentences) out of texts that an earlier text, or the same one, has already.

    Pieces are compared by their words: case, marks and spaces make no difference.
    """

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"copies", "most_cut"})
    RECORD: ClassVar[np.dtype[Any]] = CUT

    step: Literal["lines"] = "lines"
    unit: Literal["line", "paragraph", "sentence"] = "line"
    least_units: int = Field(
        10, ge=1, description="words (Chinese: characters) of the shortest piece that is compared"
    )
    copies: int = Field(1, ge=1, description="how many of a piece stay, the first ones")
    most_cut: float = Field(
        0.8, gt=0, le=1, description="share of a text from which it is dropped whole when so much goes"
    )

    def measure(self, batch: Batch) -> None:
        from l3_ylink.datakit.purify.pieces import pieces_of

        found = pieces_of(batch.units, self.unit, self.least_units)
        batch.columns["pieces"] = [piece.tobytes() for piece in found]
        batch.columns["text_length"] = np.asarray([len(text) for text in batch.texts], np.int64)

    def collect(self, table: Table, alive: I64) -> Records:
        return records_of(table, alive, "pieces")

    def resolve(self, spill: Spill, ruling: Ruling) -> None:
        gone = ruling.spill(CUT)
        for part in spill.parts("key", "row", "start"):
            gone.add(by_row(part[rank_in_group(part["key"]) >= self.copies], len(ruling.signals)))
        cut_or_drop(gone, ruling, "seen_before", self.most_cut)


class Boilerplate(GlobalStep):
    """Takes out the lines that many pages of one site share: menus, footers, notices.

    A line is boilerplate where at least `least_pages` pages of its site have it, and that `least_share` of
    the site's pages.  The site is the host of a page's address, else the first folder of its path.
    """

    ONLY_DECIDES: ClassVar[frozenset[str]] = frozenset({"least_pages", "least_share", "most_cut"})
    RECORD: ClassVar[np.dtype[Any]] = SITE

    step: Literal["boilerplate"] = "boilerplate"
    least_units: int = Field(1, ge=1, description="words (Chinese: characters) of the shortest line")
    least_pages: int = Field(5, ge=2)
    least_share: float = Field(0.1, gt=0, le=1)
    most_cut: float = Field(
        0.95, gt=0, le=1, description="share of a text from which it is dropped whole when so much goes"
    )

    def measure(self, batch: Batch) -> None:
        from l3_ylink.datakit.purify.pieces import pieces_of

        found = pieces_of(batch.units, "line", self.least_units)
        batch.columns["site_lines"] = [piece.tobytes() for piece in found]
        batch.columns["text_length"] = np.asarray([len(text) for text in batch.texts], np.int64)
        batch.columns["site"] = [site_of(document.url, document.path) for document in batch.documents]

    def collect(self, table: Table, alive: I64) -> Records:
        """A record a line, and one for each site of the block with the number of its pages."""
        names = table.columns["site"]
        alive = np.asarray([row for row in alive.tolist() if names[row]], np.int64)
        hashes = np.asarray(
            [xxhash.xxh3_64_intdigest(names[row].encode("utf-8", "surrogatepass")) for row in alive.tolist()],
            np.uint64,
        )
        lines = records_of(table, alive, "site_lines")
        site = hashes[np.searchsorted(alive, lines["row"] - table.first)]
        sites, pages = np.unique(hashes, return_counts=True)
        records = np.zeros(len(lines) + len(sites), SITE)
        of_lines, of_sites = records[: len(lines)], records[len(lines) :]
        for name in ("row", "start", "end", "size"):
            of_lines[name] = lines[name]
        of_lines["site"] = site
        of_lines["key"] = (lines["key"] ^ site) * ODD
        of_sites["key"] = of_sites["site"] = sites
        of_sites["pages"] = pages
        return records

    def resolve(self, spill: Spill, ruling: Ruling) -> None:
        sizes, shared, gone = ruling.spill(SITE), ruling.spill(SITE), ruling.spill(CUT)
        for part in spill.parts("key", "site", "row", "start"):
            is_line = part["end"] > part["start"]
            sizes.add(part[~is_line])
            shared.add(self._candidates(part[is_line]))
        with ruling.scratch() as folder:
            site, pages = _site_sizes(sizes, folder)
            for part in shared.parts("key", "site", "row", "start"):
                whole = pages[np.searchsorted(site, part["site"])]
                gone.add(by_row(part[part["pages"] >= self.least_share * whole], len(ruling.signals)))
        cut_or_drop(gone, ruling, "boilerplate", self.most_cut)

    def _candidates(self, lines: Records) -> Records:
        """The lines that enough pages have, with the number of these pages."""
        if not len(lines):
            return lines
        group = group_numbers(lines["key"], lines["site"])
        new_page = np.append([True], (np.diff(group) != 0) | (np.diff(lines["row"]) != 0))
        pages = np.bincount(group[new_page], minlength=int(group[-1]) + 1)[group]
        some: Records = lines[pages >= self.least_pages].copy()
        some["pages"] = pages[pages >= self.least_pages]
        return some


def _site_sizes(sizes: Spill, folder: Path) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The sites in order and the pages of each, on disk."""
    with open(folder / "sites", "wb") as sites, open(folder / "pages", "wb") as pages:
        for part in sizes.parts("key"):
            group = group_numbers(part["site"])
            part["site"][np.searchsorted(group, np.arange(int(group[-1]) + 1))].tofile(sites)
            np.bincount(group, part["pages"]).astype(np.int64).tofile(pages)
    if not (folder / "sites").stat().st_size:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    return np.memmap(folder / "sites", np.uint64, "r"), np.memmap(folder / "pages", np.int64, "r")


def records_of(table: Table, alive: I64, column: str) -> Records:
    """The stored pieces of some documents as records, in the order of rows."""
    from l3_ylink.datakit.purify.pieces import PIECE

    stored = table.columns[column]
    mine = [stored[row] for row in alive.tolist()]
    pieces = np.frombuffer(b"".join(mine), PIECE)
    counts = np.asarray([len(some) // PIECE.itemsize for some in mine], np.int64)
    records = np.zeros(len(pieces), CUT)
    records["key"], records["start"], records["end"] = pieces["hash"], pieces["start"], pieces["end"]
    records["row"] = np.repeat(alive + table.first, counts)
    records["size"] = np.repeat(table.numbers("text_length")[alive], counts)
    return records


def group_numbers(*fields: npt.NDArray[Any]) -> I64:
    """0, 1, 2 … for runs of rows that are equal in all fields."""
    new = np.zeros(len(fields[0]), bool)
    for values in fields:
        new[1:] |= values[1:] != values[:-1]
    return np.cumsum(new)


def rank_in_group(keys: npt.NDArray[Any]) -> I64:
    """0 for the first of a run of equal keys, 1 for the second, and so on."""
    group = group_numbers(keys)
    first = np.searchsorted(group, group)
    rank: I64 = np.arange(len(keys)) - first
    return rank


def by_row(records: Records, rows: int) -> Records:
    """Records of spans, to be sorted by document."""
    found = np.zeros(len(records), CUT)
    for name in ("row", "start", "end", "size"):
        found[name] = records[name]
    found["key"] = position_key(found["row"], rows)
    return found


def cut_or_drop(gone: Spill, ruling: Ruling, reason: str, most: float) -> None:
    """Cuts the spans of each document out, or drops it where they are more than `most` of it.

    The spans of one document do not overlap.
    """
    for part in gone.parts("key", "row", "start"):
        group = group_numbers(part["row"])
        taken = np.bincount(group, part["end"].astype(np.int64) - part["start"])
        first = np.searchsorted(group, np.arange(len(taken)))
        share = taken / np.maximum(part["size"][first], 1)
        drop = share > most
        ruling.drop(part["row"][first[drop]], f"mostly_{reason}", value=share[drop], threshold=most)
        some = part[~drop[group]]
        ruling.cut(some["row"], some["start"].astype(np.int64), some["end"].astype(np.int64), reason)
