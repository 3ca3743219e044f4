"""The links of a page: where it says one may go on, and whether it asks not to."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from lxml import etree, html  # type: ignore[import-untyped]

MOST_LINKS = 5_000
MOST_SITEMAP = 50_000_000
"""Bytes of a sitemap, packed or not: the protocol's own bound."""

REFRESH = re.compile(r"\s*[\d.]+\s*[;,]\s*url\s*=\s*[\"']?([^\"'>]+)", re.IGNORECASE)
CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)


class Links(NamedTuple):
    """The links of a page as they stand there, and the base that they are relative to."""

    base: str
    links: list[str]


def is_html(content_type: str, body: bytes) -> bool:
    """Whether a body is HTML by its type, or by how it begins where none is given."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind:
        return kind in ("text/html", "application/xhtml+xml")
    return body[:500].lstrip().lower().startswith((b"<!doctype html", b"<html"))


def decoded(body: bytes, encoding: str, most: int) -> bytes:
    """A body without its Content-Encoding, no more than `most` bytes of it; b"" where that is damaged."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return body[:most]
    if kind not in ("gzip", "x-gzip", "deflate"):
        return b""
    windows = (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS)  # some servers send deflate without its header
    for window in windows:
        try:
            return zlib.decompressobj(window).decompress(body, most)
        except zlib.error:
            continue
    return b""


def page_links(body: bytes, url: str, content_type: str = "") -> Links:
    """The links of an HTML page.

    A page that says `nofollow` has none, and neither has a link that says so itself.
    """
    charset = CHARSET.search(content_type)
    try:
        parser = html.HTMLParser(encoding=charset[1] if charset else None)
    except LookupError:
        parser = html.HTMLParser()
    try:
        tree = html.document_fromstring(body, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return Links(url, [])
    asks = " ".join(tree.xpath("//meta[translate(@name, 'ROBTS', 'robts')='robots']/@content")).lower()
    if "nofollow" in asks or "none" in asks:
        return Links(url, [])
    base = next(iter(tree.xpath("//base/@href")), "")
    found = dict.fromkeys(link for link in _links(tree) if link and not link.startswith("#"))
    return Links(str(base) or url, list(found)[:MOST_LINKS])


def _links(tree: html.HtmlElement) -> Iterator[str]:
    for element in tree.iter("a", "area", "frame", "iframe", "link", "meta"):
        asks = (element.get("rel") or "").lower().split()
        if element.tag == "meta":
            if (element.get("http-equiv") or "").lower() == "refresh":
                target = REFRESH.match(element.get("content") or "")
                yield target[1].strip() if target else ""
        elif element.tag in ("frame", "iframe"):
            yield (element.get("src") or "").strip()
        elif element.tag == "link":
            if {"next", "prev", "canonical"} & set(asks):
                yield (element.get("href") or "").strip()
        elif "nofollow" not in asks:
            yield (element.get("href") or "").strip()


def sitemap_links(body: bytes) -> tuple[list[str], list[str]]:
    """The pages and the further sitemaps that a sitemap (XML, an index of them, or lines of text) names."""
    if body[:2] == b"\x1f\x8b":
        body = decoded(body, "gzip", MOST_SITEMAP)
    if not body.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"<"):
        lines = body.decode("utf-8-sig", "replace").split()
        return [line for line in lines if line.startswith(("http://", "https://"))], []
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError:
        return [], []
    found: dict[str, list[str]] = {"url": [], "sitemap": []}
    for entry in root.iter("{*}url", "{*}sitemap") if root is not None else ():
        place = entry.find("{*}loc")
        if place is not None and place.text:
            found[etree.QName(entry).localname].append(place.text.strip())
    return found["url"], found["sitemap"]
