"""Tokenisers: trained on the kept text or given, and applied block by block."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents import columns
from l3_ylink.datakit.documents.store import BlockStore, Signals, disk, write_whole
from l3_ylink.datakit.steps.tokenise import Tokenise

from .megatron import token_type

TOKENIZER = "tokenizer.json"
PARTS = "parts"
TEXTS_AT_ONCE = 512


def train_tokenizer(texts: Iterable[str], vocabulary: int, end: str, path: Path) -> None:
    """Trains a byte-level BPE (no text is unknown to it) and writes it; `end` is token 0."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split(_han_pattern(), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[end],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    write_whole(path, lambda neighbour: tokenizer.save(str(neighbour)))


def _han_pattern() -> Any:
    """Runs of hanzi apart from other letters; without it a Chinese sentence would be one word."""
    from tokenizers import Regex

    return Regex(r"[\u3400-\u4dbf\u4e00-\u9fff]{1,8}")


def make_tokenizer(step: Tokenise, folder: Path, out: Path, signals: Signals, kept: set[int]) -> Path:
    """The run's `tokenizer.json`: trained on kept texts in order, or the given one, checked and copied."""
    path = out / TOKENIZER
    if step.tokenizer is not None:
        given = folder / step.tokenizer
        check_tokenizer(given, step.end)
        with disk(path):
            atomic_write(path, given.read_bytes())
    else:
        train_tokenizer(_sample(signals, kept, step.sample_bytes), step.vocabulary or 0, step.end, path)
    return path


def check_tokenizer(path: Path, end: str) -> None:
    """A `BadInput` when the file is no tokenizer or lacks the closing token."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise BadInput("is not a tokenizer.json", field=str(path), why=str(error)) from error
    if tokenizer.token_to_id(end) is None:
        raise BadInput(f"has no token {end!r}", field=str(path), do="set `end` of the tokenise step")


def _sample(signals: Signals, kept: set[int], most: int) -> Iterator[str]:
    size = 0
    for number in range(len(signals.first) - 1):
        rows = [row for row in signals.block_rows(number) if row in kept]
        if not rows:
            continue
        texts = signals.block_texts(number)
        for row in rows:
            text = texts[row - int(signals.first[number])]
            size += len(text.encode())
            if size > most:
                return
            yield text


@lru_cache(maxsize=2)
def _load(path: Path, _digest: str) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))


def part_paths(out: Path, number: int) -> tuple[Path, Path]:
    """The raw tokens of a block, and the file that commits them."""
    return out / PARTS / f"part-{number:06d}.bin", out / PARTS / f"part-{number:06d}.json"


def committed_part(out: Path, number: int, key: str) -> list[int] | None:
    """The document lengths of a block's part, if it is whole and has this key."""
    data, manifest = part_paths(out, number)
    try:
        about = json.loads(manifest.read_bytes())
        return about["lengths"] if about["key"] == key and data.stat().st_size == about["bytes"] else None
    except (OSError, ValueError, KeyError):
        return None


def tokenise_part(out: Path, store: BlockStore, number: int, rows: list[int], key: str) -> dict[str, Any]:
    """Tokenises some rows (numbers inside the block) and commits them as a part of the token file."""
    plan = json.loads((out / PARTS / "plan.json").read_bytes())
    tokenizer = _load(out / TOKENIZER, digest_of_file(out / TOKENIZER))
    end = tokenizer.token_to_id(plan["end"])
    dtype = token_type(tokenizer.get_vocab_size())
    texts = _block_texts(store, number, rows)
    data, manifest = part_paths(out, number)
    lengths: list[int] = []

    def write(neighbour: Path) -> None:
        with open(neighbour, "wb") as stream:
            for start in range(0, len(texts), TEXTS_AT_ONCE):
                for encoding in tokenizer.encode_batch_fast(
                    texts[start : start + TEXTS_AT_ONCE], add_special_tokens=False
                ):
                    tokens = np.asarray([*encoding.ids, end], dtype)
                    tokens.tofile(stream)
                    lengths.append(len(tokens))

    write_whole(data, write)
    about = {"key": key, "bytes": data.stat().st_size, "lengths": lengths}
    with disk(manifest):
        atomic_write(manifest, json.dumps(about))
    return {"number": number, "rows": len(lengths), "tokens": sum(lengths)}


def _block_texts(store: BlockStore, number: int, rows: list[int]) -> list[str]:
    texts = columns.read(store.data(number), ["text"]).column(0).to_pylist()
    return [texts[row] for row in rows]
