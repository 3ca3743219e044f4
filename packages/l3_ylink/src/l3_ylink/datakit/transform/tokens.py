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
from l3_ylink.datakit.documents.store import disk, write_whole
from l3_ylink.datakit.steps.tokenise import Tokenise

from .encoder import Encoder, Engine, encode_documents, load_encoder
from .megatron import TokenWriter, token_type, with_suffix
from .ranks import PATTERNS
from .shards import read_texts

TOKENIZER = "tokenizer.json"
PARTS = "parts"


def train_tokenizer(texts: Iterable[str], vocabulary: int, end: str, path: Path) -> None:
    """Trains a byte-level BPE (no text is unknown to it) and writes it; `end` is token 0.

    Texts are split as Qwen's models do, digits one by one: fastokens has a fast path for just this pattern,
    five times faster than for the same splits said otherwise.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERNS["qwen"]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
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


def make_tokenizer(step: Tokenise, folder: Path, out: Path, texts: Iterable[str]) -> Path:
    """The run's `tokenizer.json`: trained on kept texts in order, or the given one, checked and copied."""
    path = out / TOKENIZER
    if step.tokenizer is not None:
        given = folder / step.tokenizer
        check_tokenizer(given, step.end)
        with disk(path):
            atomic_write(path, given.read_bytes())
    else:
        train_tokenizer(_sample(texts, step.sample_bytes), step.vocabulary or 0, step.end, path)
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


def _sample(texts: Iterable[str], most: int) -> Iterator[str]:
    size = 0
    for text in texts:
        size += len(text.encode())
        if size > most:
            return
        yield text


@lru_cache(maxsize=2)
def _load(path: Path, _digest: str, engine: Engine) -> Encoder:
    return load_encoder(path, engine)


def plan_parts(out: Path, step: Tokenise, tokenizer: Path, sample: list[str]) -> np.dtype[Any]:
    """Chooses the encoder, once for all workers, and writes what they need; returns the tokens' type."""
    encoder = load_encoder(tokenizer, sample=sample)
    end = encoder.token(step.end)
    with disk(out / PARTS):
        atomic_write(out / PARTS / "plan.json", json.dumps({"end": end, "engine": encoder.engine}))
    return token_type(encoder.vocabulary)


def part_path(out: Path, number: int) -> Path:
    """The token file of a block, without suffix; beside it lies a `.json` that commits it."""
    return out / PARTS / f"part-{number:06d}"


def committed_part(out: Path, number: int, key: str) -> bool:
    """Whether a block's part is whole and was made with this key."""
    prefix = part_path(out, number)
    try:
        about = json.loads(with_suffix(prefix, ".json").read_bytes())
        size = with_suffix(prefix, ".bin").stat().st_size
        return about["key"] == key and size == about["bytes"] and with_suffix(prefix, ".idx").exists()
    except (OSError, ValueError, KeyError):
        return False


def drop_part(out: Path, number: int) -> None:
    """Removes a part that has been merged, its commit first."""
    for suffix in (".json", ".bin", ".idx"):
        with_suffix(part_path(out, number), suffix).unlink(missing_ok=True)


def tokenise_part(out: Path, number: int, text: str, key: str) -> dict[str, Any]:
    """Tokenises a shard of kept text (its path below the run) and commits it as a part of the token file."""
    plan = json.loads((out / PARTS / "plan.json").read_bytes())
    encoder = _load(out / TOKENIZER, digest_of_file(out / TOKENIZER), plan["engine"])
    prefix = part_path(out, number)
    manifest = with_suffix(prefix, ".json")
    manifest.unlink(missing_ok=True)
    with TokenWriter(prefix, token_type(encoder.vocabulary)) as writer:
        for encoded in encode_documents(encoder, read_texts(out / text), plan["end"]):
            writer.write(*encoded)
    about = {"key": key, "bytes": with_suffix(prefix, ".bin").stat().st_size}
    with disk(manifest):
        atomic_write(manifest, json.dumps(about))
    return {"number": number, "rows": writer.documents, "tokens": writer.tokens}
