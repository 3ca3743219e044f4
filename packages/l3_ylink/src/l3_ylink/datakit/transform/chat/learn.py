"""Samples as token ids with the mask of what is learnt, checked against the text, in a token file.

The loss looks at what the model says and at the mark that ends its turn.  A token that would cover both
what is learnt and what is not is a reason to reject; so is a message that spells a special token, which
could end its own turn and open another's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.store import write_whole
from l3_ylink.datakit.transform.megatron import TokenWriter, token_type

from .read import Read, read_samples
from .sample import Message, Repeated, RowError
from .template import ChatTemplate, Rendered, load_template


class Learnt(NamedTuple):
    """Ids of a conversation, and for each 1 if it is learnt."""

    ids: list[int]
    mask: list[int]


class RenderCount(NamedTuple):
    """Rows read, conversations and tokens written, tokens learnt, and why others were rejected."""

    read: int
    written: int
    tokens: int
    learnt: int
    rejected: dict[str, int]


class ChatEncoder:
    """A model's template and tokenizer.  `BadInput` when its folder lacks one of them."""

    def __init__(self, folder: Path, template: ChatTemplate | None = None) -> None:
        from tokenizers import Tokenizer

        path = folder / "tokenizer.json"
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise BadInput("is not a tokenizer.json", field=str(path), why=str(error)) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.template = template or load_template(folder)
        self.vocabulary: int = self._tokenizer.get_vocab_size()
        added = self._tokenizer.get_added_tokens_decoder().values()
        self.special = sorted(token.content for token in added if token.special)

    def learn(self, messages: list[Message], tools: Iterable[Any] = ()) -> Learnt:
        """The ids and the mask; `RowError` with the reason when they could not be trusted."""
        for message in messages:
            if any(token in message["content"] for token in self.special):
                raise RowError("a message spells a special token")
        rendered = self.template.spans(messages, list(tools))
        return self._masked(rendered)

    def decode(self, ids: list[int]) -> str:
        """Ids as text, special tokens among them."""
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def _masked(self, rendered: Rendered) -> Learnt:
        encoding = self._tokenizer.encode(rendered.text, add_special_tokens=False)
        inside = np.zeros(len(rendered.text) + 1, np.int64)
        for start, end in rendered.spans:
            inside[start:end] = 1
        counts = np.concatenate([[0], np.cumsum(inside)])
        low, high = np.asarray(encoding.offsets, np.int64).reshape(-1, 2).T
        covered = counts[high] - counts[low]
        if ((covered > 0) & (covered < high - low)).any():
            raise RowError("a token lies across the border of what is learnt")
        mask = ((covered > 0) & (high > low)).astype(int).tolist()
        if not any(mask):
            raise RowError("nothing to learn")
        return Learnt(encoding.ids, mask)


def render_samples(
    source: Path,
    prefix: Path,
    encoder: ChatEncoder,
    *,
    rejects: Path,
    longest: int | None = None,
    repeated: Repeated = "join",
) -> RenderCount:
    """Renders a file of conversations into a token file with a mask; rejects go to a file with reasons.

    `longest`: most tokens of a conversation.  Of pairs the chosen answer is taken, of labels good ones.
    """
    read = learnt = 0
    reasons: Counter[str] = Counter()

    def write(path: Path) -> None:
        nonlocal read, learnt
        with open(path, "wb") as dropped:
            for number, row in enumerate(read_samples(source, repeated=repeated), 1):
                read = number
                try:
                    found = _learnt(row, encoder, longest)
                except RowError as error:
                    reasons[str(error)] += 1
                    about = {"line": number, "reason": str(error), "original": row.original}
                    dropped.write(orjson.dumps(about) + b"\n")
                    continue
                learnt += sum(found.mask)
                writer.write(np.asarray(found.ids), np.array([len(found.ids)]), np.asarray(found.mask))

    with TokenWriter(prefix, token_type(encoder.vocabulary), masked=True) as writer:
        write_whole(rejects, write)
    return RenderCount(read, writer.documents, writer.tokens, learnt, dict(sorted(reasons.items())))


def _learnt(row: Read, encoder: ChatEncoder, longest: int | None) -> Learnt:
    if row.sample is None:
        raise RowError(row.reason)
    found = encoder.learn(row.sample.example(), row.sample.tools)
    if longest is not None and len(found.ids) > longest:
        raise RowError("too long")
    return found
