"""The work of one block: read its pieces, let every step transform and measure, commit the columns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np

from .cost.ledger import StepClock
from .documents.batch import Batch, Document
from .documents.store import TEXT, BlockStore, Committed
from .gather.listing import Block, Piece
from .gather.readers import read_piece
from .recipe import Recipe
from .steps.extract import Extract

CHARACTERS_AT_ONCE = 400_000
DOCUMENTS_AT_ONCE = 4_000
PART_CHARACTERS = 8_000_000
PART_DOCUMENTS = 64_000
CRASHED = "crashed the reader"


def measure_block(
    recipe: Recipe,
    folder: Path,
    store: BlockStore,
    block: Block,
    key: str,
    *,
    skip: frozenset[str] = frozenset(),
    reading: Callable[[str], None] = lambda _: None,
    clock: StepClock | None = None,
) -> list[Committed]:
    """Measures a block and commits it, in parts of bounded size; goes on after the parts that are there.

    `skip`: paths that brought a reader down before; they are noted, so that another attempt reads the same.
    `reading(path)` is told before each file is opened, `clock` what each step takes.
    """
    clock = clock or StepClock()
    skip = store.skipped(block.number, key, skip)
    parts = store.committed(block.number, key)
    if parts and parts[-1].last:
        return parts
    with closing(_read(recipe, folder, block, skip, reading)) as documents:
        after = islice(documents, sum(part.rows for part in parts), None)
        measured: list[dict[str, object]] = []
        characters = rows = 0
        for batch in clock.each("read", _batches(after)):
            size = sum(len(document.text) for document in batch)
            if measured and (characters + size > PART_CHARACTERS or rows + len(batch) > PART_DOCUMENTS):
                with clock("store"):
                    parts.append(store.commit(block.number, len(parts), key, _join(measured), last=False))
                measured, characters, rows = [], 0, 0
            measured.append(_measure(recipe, batch, clock))
            characters, rows = characters + size, rows + len(batch)
        with clock("store"):
            parts.append(store.commit(block.number, len(parts), key, _join(measured), last=True))
    store.drop_parts_after(block.number, len(parts))
    return parts


def _read(
    recipe: Recipe, folder: Path, block: Block, skip: frozenset[str], reading: Callable[[str], None]
) -> Generator[Document]:
    extract: Extract = recipe.find(Extract)
    for piece in block.pieces:
        source = recipe.sources[piece.source]
        if piece.path in skip:
            yield _crashed(piece, source.name)
            continue
        reading(piece.path)
        yield from read_piece(folder, piece, source, how=extract.how, longest=extract.longest)


def _crashed(piece: Piece, source: str) -> Document:
    return Document(piece.path, source, piece.path, "unknown", error=CRASHED)


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Documents in groups of bounded size; the last group is there even when it is empty."""
    some: list[Document] = []
    size = 0
    for document in documents:
        if some and (size + len(document.text) > CHARACTERS_AT_ONCE or len(some) >= DOCUMENTS_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(document)
        size += len(document.text)
    yield some


def _measure(recipe: Recipe, documents: list[Document], clock: StepClock) -> dict[str, object]:
    batch = Batch(documents)
    for step in recipe.steps:
        with clock(step.step):
            step.transform(batch)
    for step in recipe.steps:
        with clock(step.step):
            step.measure(batch)
    return {
        "id": [document.id for document in documents],
        "source": [document.source for document in documents],
        "path": [document.path for document in documents],
        "format": [document.format for document in documents],
        "title": [document.title for document in documents],
        "url": [document.url for document in documents],
        "date": [document.date for document in documents],
        **batch.columns,
        TEXT: batch.texts,
    }


def _join(measured: list[dict[str, object]]) -> dict[str, object]:
    """The columns of some batches, end to end."""
    return {name: _end_to_end([some[name] for some in measured]) for name in measured[0]}


def _end_to_end(parts: list[object]) -> object:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate([np.asarray(part) for part in parts])
    return [value for part in parts for value in part]  # type: ignore[attr-defined]
