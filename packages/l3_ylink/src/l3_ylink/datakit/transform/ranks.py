"""Tokenisers that come as byte-pair ranks (tiktoken's files): turned into a `tokenizer.json`.

tiktoken joins any two neighbours that make a token, lowest rank first; a `tokenizer.json` lists the
pairs that may be joined: those are all the ways to cut a token into two.
"""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any

from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.store import disk

PATTERNS = {
    "cl100k": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "qwen": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""How texts are split before joining, by the family of models; as these publish it."""


NORMALISERS = {"cl100k": None, "qwen": {"type": "NFC"}}


def read_ranks(path: Path) -> dict[bytes, int]:
    """The ranks of a `.tiktoken` file: each line a token in base64 and its rank."""
    try:
        lines = [line.split() for line in path.read_bytes().splitlines() if line.strip()]
        ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in lines}
    except OSError as error:
        raise BadInput("cannot be read", field=str(path), why=error.strerror or "") from error
    except (ValueError, binascii.Error) as error:
        raise BadInput("is not a list of tokens and ranks", field=str(path), why=str(error)) from error
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise BadInput("the ranks are not 0 … n-1, each once", field=str(path))
    return ranks


def pairs_of(token: bytes, ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Every two tokens that make a token, in the order of their ranks."""
    splits = [(token[:place], token[place:]) for place in range(1, len(token))]
    known = [(left, right) for left, right in splits if left in ranks and right in ranks]
    return sorted(known, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))


def import_ranks(source: Path, target: Path, *, family: str, special: list[str]) -> int:
    """Writes a `tokenizer.json` that gives the ids which tiktoken gives; returns the size of the vocabulary.

    `special` are added after the ranks, in their order.
    """
    if family not in PATTERNS:
        raise BadInput(f"no family {family!r}", field="family", do=f"use one of {', '.join(PATTERNS)}")
    ranks = read_ranks(source)
    letters = byte_letters()
    spelt = {token: "".join(letters[byte] for byte in token) for token in ranks}
    in_order = sorted(ranks, key=ranks.__getitem__)
    merges = [[spelt[left], spelt[right]] for token in in_order for left, right in pairs_of(token, ranks)]
    added = [
        {
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
            "id": len(ranks) + number,
            "content": content,
            "special": True,
        }
        for number, content in enumerate(special)
    ]
    value = _tokenizer({spelt[token]: ranks[token] for token in in_order}, merges, added, family)
    with disk(target):
        atomic_write(target, json.dumps(value, ensure_ascii=False))
    return len(ranks) + len(special)


def _tokenizer(vocabulary: dict[str, int], merges: list[list[str]], added: list[Any], family: str) -> Any:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PATTERNS[family]}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": NORMALISERS[family],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            **dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")),
            "type": "BPE",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": vocabulary,
            "merges": merges,
        },
    }


def byte_letters() -> list[str]:
    """The letter that stands for each byte in byte-level vocabularies (GPT-2's table)."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]
