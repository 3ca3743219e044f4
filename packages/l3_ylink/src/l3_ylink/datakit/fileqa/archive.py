"""ZIP files that are not trusted: office documents and EPUB, looked through before anything is unpacked."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO

import lxml.etree  # type: ignore[import-untyped]

from .blocks import Source
from .limits import Limits, Unreadable

COMPOUND_FILE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""Microsoft's older container: a document with a password, or one of the formats before 2007."""

ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
MOST_XML = 128_000_000
MOST_MEMBERS = 50_000
FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    KeyError,
    OSError,
    EOFError,
    NotImplementedError,
    ValueError,
    OverflowError,
)
"""What zipfile raises over damaged data."""

SMALL = 2_000_000
"""Members up to this size may be packed as tightly as they like."""

XML = (".xml", ".rels", ".opf", ".xhtml", ".ncx")


def checked(source: Source, limits: Limits, needs: str, *, streamed: str = "\0") -> zipfile.ZipFile:
    """The open archive, when it is whole and keeps the limits.

    `needs` must be a member; members below `streamed` are read piece by piece and may be larger.
    Raises `Unreadable` with `broken`, `password` or `bomb`.
    """
    with opened(source) as stream:
        head = stream.read(1 << 20)
        size = stream.seek(0, io.SEEK_END)
    if head.startswith(COMPOUND_FILE):
        raise Unreadable("password" if ENCRYPTED in head else "broken")
    try:
        archive = zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source))
    except FAULTS as error:
        raise Unreadable("broken") from error
    try:
        _check(archive, limits, size, streamed)
        if needs not in archive.namelist():
            raise Unreadable("broken")
    except Unreadable:
        archive.close()
        raise
    return archive


def opened(source: Source) -> IO[bytes]:
    """The bytes of a source as a stream that can be sought."""
    return open(source, "rb") if isinstance(source, Path) else io.BytesIO(source)


def _check(archive: zipfile.ZipFile, limits: Limits, size: int, streamed: str) -> None:
    members = archive.infolist()
    if any(member.flag_bits & 1 for member in members):
        raise Unreadable("password")
    packed = sum(member.compress_size for member in members)
    if len(members) > MOST_MEMBERS or packed > size:  # members that share their bytes
        raise Unreadable("bomb")
    if sum(member.file_size for member in members) > limits.unpacked:
        raise Unreadable("bomb")
    for member in members:
        if member.file_size > SMALL and member.file_size > limits.ratio * max(member.compress_size, 1):
            raise Unreadable("bomb")
        is_xml = member.filename.lower().endswith(XML)
        if is_xml and member.file_size > MOST_XML and not member.filename.startswith(streamed):
            raise Unreadable("bomb")
        if is_xml and b"<!ENTITY" in member_bytes(archive, member.filename, most=4096):
            raise Unreadable("bomb")


def member_bytes(archive: zipfile.ZipFile, name: str, *, most: int = MOST_XML) -> bytes:
    """The first bytes of a member; raises `Unreadable` with `broken`."""
    try:
        with archive.open(name) as stream:
            return stream.read(most)
    except FAULTS as error:
        raise Unreadable("broken") from error
    except RuntimeError as error:  # zipfile's word for an encrypted member
        raise Unreadable("password") from error


def xml(data: bytes) -> lxml.etree._Element:
    """A tree of XML without entities or network; raises `Unreadable` with `broken`."""
    parser = lxml.etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return lxml.etree.fromstring(data, parser)
    except lxml.etree.XMLSyntaxError as error:
        raise Unreadable("broken") from error
