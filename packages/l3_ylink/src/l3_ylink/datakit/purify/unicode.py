"""The Unicode policy: one form for each text, and nothing in it that nobody can see.

NFC or NFKC; line ends as one newline; control characters, terminal colour codes, zero-width and bidirectional
marks gone (joiners stay between letters of scripts that need them); no-break and ideographic spaces as
spaces; full-width letters and digits as ASCII, Chinese punctuation as written.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple

Form = Literal["NFC", "NFKC"]

TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
OVERSTRIKES = re.compile(r"[^\n]\x08")
UNSEEN = dict.fromkeys(
    [
        *range(0x09),
        *range(0x0B, 0x20),
        *range(0x7F, 0x85),
        *range(0x86, 0xA0),
        0xAD,
        0x200B,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
        *range(0xFFF9, 0xFFFC),
        *range(0xFDD0, 0xFDF0),
        0xFFFE,
        0xFFFF,
        *range(0xD800, 0xE000),
        *range(0xE0000, 0xE0080),
    ]
)
SPACES = dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
LINE_ENDS = {0x85: "\n", 0x2028: "\n", 0x2029: "\n\n"}
WIDE = {
    code: chr(code - 0xFEE0)
    for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))
}
POLICY = {**UNSEEN, **SPACES, **LINE_ENDS}
POLICY_NARROW = {**POLICY, **WIDE}
TO_CHANGE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u1680\u2000-\u200b\u200e-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
LONE_JOINERS = re.compile(
    r"(?<![^\x00-\x7f\u2e80-\uffef])[\u200c\u200d]+|[\u200c\u200d]+(?=[\x00-\x7f\u2e80-\uffef]|$)"
)
TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)
BLANK_LINES = re.compile(r"\n{3,}")


CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
ZERO_WIDTH = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
PRIVATE_USE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]")


class Unseen(NamedTuple):
    """How many characters of a text nobody can see, or nobody but a private agreement knows."""

    control: int = 0
    zero_width: int = 0
    private_use: int = 0


def survey(text: str) -> Unseen:
    """What the policy takes out of a text, and what it leaves because its meaning is unknown."""
    control = len(CONTROL.findall(text))
    if text.isascii():
        return Unseen(control)
    return Unseen(control, len(ZERO_WIDTH.findall(text)), len(PRIVATE_USE.findall(text)))


def normalise(text: str, *, narrow: bool = True, form: Form = "NFC") -> str:
    """The text under the policy; `narrow` makes full-width letters and digits ASCII.  Idempotent."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = TERMINAL_CODES.sub("", text)
    if "\x08" in text:
        text = OVERSTRIKES.sub("", text)
    if form == "NFKC" and not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if TO_CHANGE.search(text):
        text = text.translate(POLICY_NARROW if narrow else POLICY)
    if not text.isascii():
        text = unicodedata.normalize(form, LONE_JOINERS.sub("", text))
    text = TRAILING.sub("", text)
    return BLANK_LINES.sub("\n\n", text).strip("\n")
