"""EPUB to blocks: the chapters in the order of the book's spine, read as HTML one after another."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from .archive import checked, member_bytes, xml
from .blocks import Item, Skipped, Source, Title
from .html_blocks import html_blocks
from .limits import Limits, Unreadable

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
FONT_KEYS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Fonts that are only made useless outside the book."""


def epub_blocks(source: Source, limits: Limits) -> Iterator[Item]:
    """The blocks of a book.  A span's page counts chapters of the spine; its part is the chapter's file."""
    with checked(source, limits, CONTAINER) as archive:
        if ENCRYPTION in archive.namelist() and _locked(archive):
            raise Unreadable("password")
        package = _package(archive)
        book = xml(member_bytes(archive, package))
        title = (book.findtext(".//{*}title") or "").strip()
        if title:
            yield Title(title)
        for number, name in enumerate(_spine(book, posixpath.dirname(package)), 1):
            if name not in archive.namelist():
                yield Skipped(number, "broken", name)
                continue
            try:
                data = member_bytes(archive, name)
            except Unreadable as problem:
                yield Skipped(number, str(problem), name)
                continue
            for item in html_blocks(data, drop=frozenset({"nav"}), part=name, page=number):
                if not isinstance(item, Title):
                    yield item


def _package(archive: zipfile.ZipFile) -> str:
    root = xml(member_bytes(archive, CONTAINER)).find(".//{*}rootfile")
    path = "" if root is None else str(root.get("full-path", ""))
    if path not in archive.namelist():
        raise Unreadable("broken")
    return path


def _spine(book: Any, folder: str) -> Iterator[str]:
    files = {
        item.get("id"): (str(item.get("href", "")), str(item.get("media-type", "")))
        for item in book.findall(".//{*}manifest/{*}item")
    }
    for reference in book.findall(".//{*}spine/{*}itemref"):
        href, kind = files.get(reference.get("idref"), ("", ""))
        if href and ("html" in kind or href.lower().endswith((".xhtml", ".html", ".htm"))):
            yield posixpath.normpath(posixpath.join(folder, unquote(href)))


def _locked(archive: zipfile.ZipFile) -> bool:
    """Whether more than fonts is encrypted."""
    methods = [
        str(method.get("Algorithm", ""))
        for method in xml(member_bytes(archive, ENCRYPTION)).findall(".//{*}EncryptionMethod")
    ]
    return any(method not in FONT_KEYS for method in methods)
