"""HTML to its main text: navigation, scripts and furniture left out."""

from __future__ import annotations

import re

import lxml.etree  # type: ignore[import-untyped]
import lxml.html  # type: ignore[import-untyped]

from .decode import decode

CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
FURNITURE = ("script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form", "svg")
BLOCKS = re.compile(r"\n\s*\n\s*\n+")
LEAST_SHARE = 0.25
"""Main text shorter than this share of all text: the extractor missed it (tables, definition lists)."""


def html_text(data: bytes, extractor: str = "trafilatura") -> tuple[str, str, int]:
    """Text, title and undecodable characters of an HTML page.

    `extractor`: `trafilatura` (main text by its heuristics, all visible text where those find little) or
    `visible` (all text outside scripts, navigation, headers and footers; ten times faster).
    """
    declared = CHARSET.search(data[:4096])
    decoded = decode(data, declared.group(1).decode("ascii") if declared else None)
    if not decoded.text.strip():
        return "", "", decoded.undecodable
    tree = lxml.html.document_fromstring(decoded.text.encode("utf-8", "replace"), parser=_parser())
    title = (tree.findtext(".//title") or "").strip()
    visible = _visible(tree)
    if extractor == "visible":
        return visible, title, decoded.undecodable
    main = _main(decoded.text)
    return (main if len(main) >= LEAST_SHARE * len(visible) else visible), title, decoded.undecodable


def _parser() -> lxml.html.HTMLParser:
    return lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)


def _main(page: str) -> str:
    import trafilatura

    found = trafilatura.extract(
        page, include_comments=False, include_tables=True, deduplicate=False, fast=True
    )
    return found or ""


def _visible(tree: lxml.html.HtmlElement) -> str:
    for element in tree.xpath(" | ".join(f"//{name}" for name in FURNITURE)):
        if element.getparent() is not None and element.tag != "body":
            element.drop_tree()
    pieces: list[str] = []
    body = tree.find("body")
    _walk(tree if body is None else body, pieces)
    lines = (re.sub(r"[ \t\f\v]+", " ", line).strip() for line in "".join(pieces).splitlines())
    return BLOCKS.sub("\n\n", "\n".join(lines)).strip()


INLINE = {
    "a",
    "abbr",
    "acronym",
    "b",
    "bdi",
    "bdo",
    "big",
    "cite",
    "code",
    "dfn",
    "em",
    "font",
    "i",
    "ins",
} | {
    "kbd",
    "label",
    "mark",
    "q",
    "s",
    "samp",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
    "tt",
    "u",
    "var",
    "wbr",
}


def _walk(root: lxml.html.HtmlElement, pieces: list[str]) -> None:
    """Texts in order; a block element starts a line of its own.  A loop, for pages nested without end."""
    for event, element in lxml.etree.iterwalk(root, events=("start", "end")):
        block = element.tag not in INLINE
        preformatted = element.tag == "pre"
        if event == "start":
            pieces.append("\n" if block else "")
            inside = element.text or ""
            pieces.append(inside if preformatted else inside.replace("\n", " "))
        else:
            pieces.append("\n" if block else "")
            if element is not root:
                pieces.append((element.tail or "").replace("\n", " "))
