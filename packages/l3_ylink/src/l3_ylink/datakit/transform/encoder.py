"""Texts to token ids, many at once: by fastokens where it agrees with `tokenizers`, else by `tokenizers`.

Both read the same `tokenizer.json`.  fastokens is some thirty times faster, but it does not know every
model and could one day differ: an encoder is believed only after both gave the same ids for strings that
tokenisers trip over.  A special token that a text spells out stays text, so that no document can close
itself or open a turn in somebody's conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from l3_ylink._kit.problems import BadInput

Engine = Literal["fastokens", "tokenizers"]

MOST_TEXTS = 512
MOST_CHARACTERS = 4_000_000
SURROGATES = re.compile("[\ud800-\udfff]")

PROBES = (
    *("", " ", "\n", "\t\t x", " " * 300, "\r\n\r\n  a\r", "\x00\x01\x7f", "\ufeffa\u200b\u2028b\u00a0c"),
    *("It's we'll I'D don’t", "3.14159 1,000,000 ２０２６ ¾ 四十二", "x=1;y=[0x1F]//z  \n    return"),
    *("中文分词测试，含English混排123个字。", "繁體：國語、𠮷野家。", "かなカナ漢字", "한국어 문장입니다"),
    *("ภาษาไทย", "naïve e\u0301 ﬁ Å\u030a", "👩\u200d👩\u200d👧 🇨🇳 ✈\ufe0f", "مرحبا بالعالم", "Привет, мир!"),
    *("हिन्दी", "\ufffd\ufffd", "a" * 300, "_a__b-c--d", "http://a.b/c?d=e&f#g", "<s></s>[INST]<|im_end|>"),
)


class Encoded(NamedTuple):
    """Ids of several texts in a row (u32), and how many belong to each (i64)."""

    tokens: npt.NDArray[np.uint32]
    lengths: npt.NDArray[np.int64]


class Encoder(Protocol):
    """What turns texts into ids."""

    engine: Engine
    vocabulary: int

    def token(self, name: str) -> int | None:
        """The id of a token, or None."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """The ids of some texts; nothing is added before or after them."""


class Fastokens:
    """`fastokens`: ids come as one buffer, without a Python object for each."""

    engine: Engine = "fastokens"

    def __init__(self, path: Path) -> None:
        import fastokens  # type: ignore[import-untyped]

        self._tokenizer = fastokens.Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.vocabulary: int = self._tokenizer.vocab_size

    def token(self, name: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(name)
        return found

    def encode(self, texts: Sequence[str]) -> Encoded:
        ids, ends = self._tokenizer.encode_batch_flat(
            _clean(texts), add_special_tokens=False, split_special_tokens=True
        )
        bounds = np.frombuffer(ends, "<i8")
        return Encoded(np.frombuffer(ids, "<u4"), bounds[1:] - bounds[:-1])


class Tokenizers:
    """Hugging Face `tokenizers`: the reference."""

    engine: Engine = "tokenizers"

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self.vocabulary: int = self._tokenizer.get_vocab_size()

    def token(self, name: str) -> int | None:
        found: int | None = self._tokenizer.token_to_id(name)
        return found

    def encode(self, texts: Sequence[str]) -> Encoded:
        encodings = self._tokenizer.encode_batch_fast(_clean(texts), add_special_tokens=False)
        ids = [np.asarray(encoding.ids, np.uint32) for encoding in encodings]
        tokens = np.concatenate(ids) if ids else np.zeros(0, np.uint32)
        return Encoded(tokens, np.asarray([len(part) for part in ids], np.int64))


ENGINES: dict[Engine, Any] = {"fastokens": Fastokens, "tokenizers": Tokenizers}


def _clean(texts: Sequence[str]) -> list[str]:
    """Lone surrogates have no UTF-8 form; they become U+FFFD, as on disk."""
    return [SURROGATES.sub("\ufffd", text) if not text.isascii() else text for text in texts]


def load_encoder(path: Path, engine: Engine | None = None, sample: Sequence[str] = ()) -> Encoder:
    """An encoder of a `tokenizer.json`.

    Without an `engine`, fastokens is taken if it reads the file and encodes the probes and the `sample`
    exactly as `tokenizers` does.  `BadInput` when the file is no tokenizer.
    """
    if engine is not None:
        chosen: Encoder = ENGINES[engine](path)
        return chosen
    try:
        reference = Tokenizers(path)
    except Exception as error:  # the library raises bare Exception
        raise BadInput("is not a tokenizer.json", field=str(path), why=str(error)) from error
    try:
        fast = Fastokens(path)
        same = all(_equal(fast, reference, [text]) for text in (*PROBES, *sample))
    except Exception:  # noqa: BLE001 (whatever it does not know, the reference does)
        return reference
    return fast if same and fast.vocabulary == reference.vocabulary else reference


def _equal(one: Encoder, other: Encoder, texts: Sequence[str]) -> bool:
    mine, theirs = one.encode(texts), other.encode(texts)
    return np.array_equal(mine.tokens, theirs.tokens) and np.array_equal(mine.lengths, theirs.lengths)


def encode_documents(encoder: Encoder, texts: Iterable[str], end: int) -> Iterator[Encoded]:
    """The texts as documents, each closed by the token `end`, some at a time: memory stays bounded."""
    for group in groups(texts):
        encoded = encoder.encode(group)
        lengths = encoded.lengths + 1
        ends = np.cumsum(lengths)
        tokens = np.full(int(ends[-1]), end, np.uint32)
        inside = np.ones(len(tokens), bool)
        inside[ends - 1] = False
        tokens[inside] = encoded.tokens
        yield Encoded(tokens, lengths)


def groups(texts: Iterable[str]) -> Iterator[list[str]]:
    """Texts in groups of at most `MOST_TEXTS` and, unless one is longer, `MOST_CHARACTERS`."""
    group: list[str] = []
    size = 0
    for text in texts:
        if group and (len(group) == MOST_TEXTS or size + len(text) > MOST_CHARACTERS):
            yield group
            group, size = [], 0
        group.append(text)
        size += len(text)
    if group:
        yield group
