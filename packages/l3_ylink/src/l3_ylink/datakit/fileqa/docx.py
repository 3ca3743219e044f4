"""DOCX to text: paragraphs, headings and tables, read from a ZIP that is not trusted."""

from __future__ import annotations

import io
import zipfile

import lxml.etree  # type: ignore[import-untyped]

MOST_BYTES = 64_000_000
MOST_RATIO = 200
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


class DocxError(Exception):
    """A DOCX that cannot be read; the message is the reason that the report names."""


def docx_text(data: bytes) -> str:
    """The text of a DOCX; raises `DocxError` with `broken`, `password` or `bomb`."""
    tree = _document(data)
    lines: list[str] = []
    body = tree.find(f"{W}body")
    for element in () if body is None else body:
        if element.tag == f"{W}p":
            lines.append(_paragraph(element))
        elif element.tag == f"{W}tbl":
            lines += _table(element)
    return "\n".join(lines)


def _document(data: bytes) -> lxml.etree._Element:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entry = archive.getinfo("word/document.xml")
            if entry.file_size > MOST_BYTES or entry.file_size > MOST_RATIO * max(entry.compress_size, 1):
                raise DocxError("bomb")
            with archive.open(entry) as stream:  # what is written in the directory may be a lie
                content = stream.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, KeyError, OSError, EOFError, NotImplementedError) as error:
        raise DocxError("broken") from error
    except RuntimeError as error:  # zipfile's word for an encrypted entry
        raise DocxError("password") from error
    if len(content) > MOST_BYTES:
        raise DocxError("bomb")
    parser = lxml.etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        return lxml.etree.fromstring(content, parser)
    except lxml.etree.XMLSyntaxError as error:
        raise DocxError("broken") from error


def _paragraph(element: lxml.etree._Element) -> str:
    white = {f"{W}tab": "\t", f"{W}br": "\n"}
    text = "".join(white.get(node.tag) or node.text or "" for node in element.iter(f"{W}t", *white))
    style = element.find(f"{W}pPr/{W}pStyle")
    name = "" if style is None else style.get(f"{W}val", "")
    level = name.removeprefix("Heading")
    return f"{'#' * int(level)} {text}" if name.startswith("Heading") and level.isdigit() and text else text


def _table(element: lxml.etree._Element) -> list[str]:
    rows = []
    for row in element.iter(f"{W}tr"):
        cells = [" ".join(_paragraph(p) for p in cell.iter(f"{W}p")).strip() for cell in row.iter(f"{W}tc")]
        rows.append(f"| {' | '.join(cells)} |")
    return ["", *rows, ""]
