"""What a file may cost, and the reasons for which it is given up."""

from __future__ import annotations

from typing import NamedTuple

REASONS = frozenset(
    {
        "broken",
        "password",
        "bomb",
        "time",
        "memory",
        "too_many_pages",
        "no_reader",
        "no_ocr",
        "no_text",
        "empty",
    }
)
"""`no_reader`, `no_ocr`: the extra `files` or `ocr` is not installed; `no_text`: a scan, left alone."""


class Unreadable(Exception):  # noqa: N818 (the reason is the message)
    """A file that cannot be read; the message is one of `REASONS`."""


class Limits(NamedTuple):
    """Bounds that a file must keep.

    `page_seconds`: CPU seconds of one PDF page; recognition of a scan may take ten times that.
    `page_memory`: bytes of memory of the process that reads pages.
    `unpacked`: bytes that a ZIP (DOCX, PPTX, XLSX, EPUB) may unpack to.
    `ratio`: how many times its packed size one of its members may have.
    """

    page_seconds: float = 20.0
    page_memory: int = 3 << 30
    unpacked: int = 512_000_000
    ratio: int = 300
