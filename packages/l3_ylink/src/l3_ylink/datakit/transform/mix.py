"""Mixing: how many tokens each source gives, by weight, temperature and limits; and the mixed order.

Sources come in turn so that every stretch of the result follows the mix: document k of a source, which
begins after c of the t tokens that it gives, comes at the time c / t, and times are merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from l3_ylink._kit.documents import describe, first_field
from l3_ylink._kit.problems import BadInput

from .megatron import TokenFile, TokenWriter
from .order import Permutation, row_keys

SLICE = 4_000_000
"""Tokens that are mixed at once."""

DOCUMENTS = 1 << 16
"""Documents of a source that are looked up at once."""

Limit = Literal["max_epochs", "most_upsample"]


class MixSource(BaseModel):
    """A token file with its part in a mix."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    tokens: Path = Field(description="token file, without .bin or .idx")
    weight: float | None = Field(None, gt=0, description="share in the mix; without any, by size")
    max_epochs: float | None = Field(None, gt=0, description="how often the source may be repeated")


class Mix(BaseModel):
    """What is mixed, to how many tokens, under which limits."""

    model_config = ConfigDict(extra="forbid")

    sources: list[MixSource] = Field(min_length=1)
    total: int | None = Field(None, ge=1, description="tokens of the result; all there are by default")
    temperature: float = Field(1.0, gt=0, description="shares to the power 1/T: above 1 flattens the mix")
    most_upsample: float | None = Field(
        None, ge=1, description="most times a source's share may exceed its share of all tokens"
    )
    seed: int = 0


class Part(NamedTuple):
    """One source's part: tokens that exist, share wanted, tokens given, and the limit that it met."""

    name: str
    size: int
    wanted: float
    tokens: int
    limit: Limit | None

    @property
    def epochs(self) -> float:
        """How often its tokens come."""
        return self.tokens / self.size


def load_mix(path: Path) -> Mix:
    """A mix from a YAML file; paths in it are relative to the file.  `BadInput` names the field at fault."""
    try:
        value = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"is not readable YAML: {' '.join(str(error).split())}", field=str(path)) from error
    try:
        mix = Mix.model_validate(value)
    except ValidationError as error:
        raise BadInput(f"{path}: {describe(error)}", field=first_field(error)) from error
    sources = [source.model_copy(update={"tokens": path.parent / source.tokens}) for source in mix.sources]
    return mix.model_copy(update={"sources": sources})


def plan_mix(mix: Mix, sizes: Mapping[str, int]) -> list[Part]:
    """How many tokens each source gives; what a limit takes goes to the others by their shares.

    `BadInput` when a source is empty, only some have weights, or the limits leave too little.
    """
    _check(mix, sizes)
    size = np.array([sizes[source.name] for source in mix.sources], float)
    total = mix.total or int(size.sum())
    wanted = _shares(mix, size)
    epochs = np.array([source.max_epochs or np.inf for source in mix.sources]) * size
    upsampled = (mix.most_upsample or np.inf) * size / size.sum() * total
    most = np.minimum(epochs, upsampled)
    if most.sum() < total * (1 - 1e-12):
        raise BadInput(
            f"the limits leave {int(most.sum())} of {total} tokens",
            field="total",
            do="lower total, or raise max_epochs",
        )
    given = _rounded(_fill(wanted, most, total), total)
    limits: list[Limit | None] = [
        None if given[i] < most[i] - 1 else ("max_epochs" if epochs[i] <= upsampled[i] else "most_upsample")
        for i in range(len(size))
    ]
    return [
        Part(source.name, int(size[i]), float(wanted[i]), int(given[i]), limits[i])
        for i, source in enumerate(mix.sources)
    ]


def _check(mix: Mix, sizes: Mapping[str, int]) -> None:
    names = [source.name for source in mix.sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadInput(f"{', '.join(twice)}: comes more than once", field="sources")
    empty = [name for name in names if not sizes[name]]
    if empty:
        raise BadInput(f"{', '.join(empty)}: has no tokens", field="sources", do="leave it out")
    bare = [source.name for source in mix.sources if source.weight is None]
    if bare and len(bare) < len(names):
        raise BadInput(
            f"{', '.join(bare)}: has no weight, others have", field="sources", do="weigh all or none"
        )


def _shares(mix: Mix, size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    weights = np.array([source.weight or 0.0 for source in mix.sources])
    base = weights if weights.any() else size
    flat = (base / base.max()) ** (1 / mix.temperature)
    shares: npt.NDArray[np.float64] = flat / flat.sum()
    return shares


def _fill(
    wanted: npt.NDArray[np.float64], most: npt.NDArray[np.float64], total: float
) -> npt.NDArray[np.float64]:
    """Water filling: as wanted, but nobody above `most`; the free ones share the rest as wanted."""
    given = np.zeros(len(wanted))
    free = np.ones(len(wanted), bool)
    while free.any():
        given[free] = (total - given[~free].sum()) * wanted[free] / wanted[free].sum()
        over = free & (given > most)
        if not over.any():
            break
        given[over] = most[over]
        free &= ~over
    return given


def _rounded(given: npt.NDArray[np.float64], total: int) -> npt.NDArray[np.int64]:
    """Whole tokens with the same sum: the largest remainders are rounded up."""
    whole = np.floor(given).astype(np.int64)
    rest = np.argsort(-(given - whole), kind="stable")[: total - int(whole.sum())]
    whole[rest] += 1
    return whole


def mix_tokens(out: Path, mix: Mix) -> list[Part]:
    """Writes the mixed token file `out`; each epoch of each source has its own order, by the seed.

    A source gives whole documents: up to one document more than planned.  The parts that come back hold
    what was written.
    """
    files = {source.name: TokenFile(source.tokens) for source in mix.sources}
    kinds = {str(file.dtype) for file in files.values()}
    if len(kinds) > 1:
        raise BadInput(
            f"the sources hold {' and '.join(sorted(kinds))}", field="sources", do="use one tokenizer"
        )
    parts = plan_mix(mix, {name: len(file.tokens) for name, file in files.items()})
    feeds = [
        _Feed(files[part.name], part.tokens, int(row_keys(number, 1, mix.seed)[0]))
        for number, part in enumerate(parts)
    ]
    slices = max(1, sum(part.tokens for part in parts) // SLICE)
    with TokenWriter(
        out, feeds[0].file.dtype, masked=any(feed.file.mask is not None for feed in feeds)
    ) as writer:
        for number in range(1, slices + 1):
            _write_slice(writer, feeds, number / slices if number < slices else np.inf)
    return [part._replace(tokens=feed.given) for part, feed in zip(parts, feeds, strict=True)]


class _Feed:
    """The documents of one source in the order in which they come, with their times."""

    def __init__(self, file: TokenFile, wanted: int, seed: int) -> None:
        self.file, self.wanted, self.seed = file, wanted, seed
        self.given = 0
        self._chunks = self._all()
        self._waiting: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]] = []

    def _all(self) -> Iterator[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]]:
        for epoch in range(2**62):
            order = Permutation(len(self.file), int(row_keys(epoch, 1, self.seed)[0]))
            for first in range(0, len(self.file), DOCUMENTS):
                rows = order(np.arange(first, min(first + DOCUMENTS, len(self.file))))
                lengths = self.file.lengths[rows].astype(np.int64)
                starts = self.given + np.cumsum(lengths) - lengths
                taken = int(np.searchsorted(starts, self.wanted))
                self.given += int(lengths[:taken].sum())
                yield starts[:taken] / max(self.wanted, 1), rows[:taken]
                if taken < len(rows) or self.given >= self.wanted:
                    return

    def until(self, time: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Documents whose time is before `time` and that were not asked for yet."""
        while not self._waiting or self._waiting[-1][0][-1] < time:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            if len(chunk[1]):
                self._waiting.append(chunk)
        times, rows = _joined(self._waiting)
        count = int(np.searchsorted(times, time))
        self._waiting = [(times[count:], rows[count:])] if count < len(rows) else []
        return times[:count], rows[:count]


def _joined(
    chunks: Sequence[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    times = np.concatenate([np.zeros(0), *(chunk[0] for chunk in chunks)])
    return times, np.concatenate([np.zeros(0, np.int64), *(chunk[1] for chunk in chunks)])


def _write_slice(writer: TokenWriter, feeds: Sequence[_Feed], until: float) -> None:
    taken = [feed.until(until) for feed in feeds]
    times = np.concatenate([times for times, _ in taken])
    source = np.repeat(np.arange(len(feeds)), [len(rows) for _, rows in taken])
    row = np.concatenate([rows for _, rows in taken])
    order = np.lexsort((source, times))
    pieces: list[Any] = []
    masks: list[Any] = []
    for number, place in zip(source[order].tolist(), row[order].tolist(), strict=True):
        file = feeds[number].file
        pieces.append(file[place])
        if writer.masked:
            masks.append(file.mask_of(place))
    if pieces:
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        writer.write(np.concatenate(pieces), lengths, np.concatenate(masks) if masks else None)
