"""A file's bytes to text, by its format; what cannot be read is a reason, never an exception."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import NamedTuple

import zstandard

from .decode import decode
from .document import FORMATS as FILES
from .document import read_document
from .html import html_text
from .limits import REASONS, Limits
from .markdown import markdown_text
from .render import Form, render

MOST_UNPACKED = 512_000_000
"""Bytes that a compressed file may unpack to."""

FORMATS = {**FILES, ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
PACKED = {".gz", ".zst"}
BLOCKS = ("pdf", "docx", "pptx", "xlsx", "epub")
"""Formats whose text is made of blocks."""


class Extracted(NamedTuple):
    """A document's text, or the reason why there is none; `skipped` names pages that could not be read."""

    text: str = ""
    error: str | None = None
    title: str = ""
    undecodable: int = 0
    skipped: str = ""


class How(NamedTuple):
    """How files are read: main or all text of HTML, scans recognised or not, and what a page may take."""

    html: str = "trafilatura"
    ocr: bool = True
    page_seconds: float = 20.0
    form: Form = "text"


def format_of(path: str) -> str:
    """html, markdown, pdf, docx, pptx, xlsx, epub, jsonl, parquet, or text for every other name."""
    name = PurePosixPath(path.lower())
    if name.suffix in PACKED:
        name = name.with_suffix("")
    return FORMATS.get(name.suffix, "text")


def unpack(path: str, data: bytes) -> bytes:
    """The content of a .gz or .zst file; raises ValueError with the reason `bomb` or `broken`."""
    suffix = PurePosixPath(path.lower()).suffix
    if suffix not in PACKED:
        return data
    try:
        opener = gzip.open if suffix == ".gz" else zstandard.open
        with opener(io.BytesIO(data)) as stream:
            content = stream.read(MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise ValueError("broken") from error
    if len(content) > MOST_UNPACKED:
        raise ValueError("bomb")
    return bytes(content)


def extract(path: str, data: bytes, how: How | None = None) -> Extracted:
    """The text of a file that is one document."""
    how = how or How()
    readers: dict[str, Callable[[bytes], Extracted]] = {
        "html": lambda content: _html(content, how.html),
        "markdown": _markdown,
        **dict.fromkeys(BLOCKS, lambda content: _blocks(format_of(path), content, how)),
    }
    try:
        content = unpack(path, data)
        if b"\0" in content[:1024] and format_of(path) == "text" and not _is_utf_16(content):
            return Extracted(error="binary")
        found = readers.get(format_of(path), _text)(content)
    except ValueError as problem:
        return Extracted(error=str(problem) if str(problem) in REASONS else "broken")
    return found if found.text.strip() else found._replace(text="", error=found.error or "empty")


def _blocks(kind: str, content: bytes, how: How) -> Extracted:
    limits = Limits(page_seconds=how.page_seconds)
    document = read_document(f"file.{kind}", content, ocr=how.ocr, limits=limits)
    skipped = "; ".join(
        f"{item.part or f'page {item.page}'}: {item.reason}" for item in document.skipped[:20]
    )
    text = render(document.blocks, how.form).text
    return Extracted(text, error=document.error, title=document.title, skipped=skipped)


def _is_utf_16(content: bytes) -> bool:
    return decode(content[:4096]).encoding.startswith(("utf-16", "utf-32"))


def _html(content: bytes, extractor: str) -> Extracted:
    text, title, undecodable = html_text(content, extractor)
    return Extracted(text, title=title, undecodable=undecodable)


def _markdown(content: bytes) -> Extracted:
    decoded = decode(content)
    text, title = markdown_text(decoded.text)
    return Extracted(text, title=title, undecodable=decoded.undecodable)


def _text(content: bytes) -> Extracted:
    decoded = decode(content)
    return Extracted(decoded.text, undecodable=decoded.undecodable)
