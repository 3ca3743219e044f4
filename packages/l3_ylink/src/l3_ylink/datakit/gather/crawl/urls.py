"""Addresses: one spelling for each page, and the shape that pages of one kind have in common."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

MOST_CHARACTERS = 2_000
MOST_SEGMENTS = 25
MOST_REPEATS = 3
"""How often one segment may come in a path: relative links to nowhere make /a/a/a/a/…"""

SESSION = re.compile(
    r"^(jsessionid|phpsessid|aspsessionid\w*|asp\.net_sessionid|cfid|cftoken|sid|s_?id|sess(ion)?_?(id)?|"
    r"utm_\w+|fbclid|gclid|msclkid|mc_[ce]id|_ga|zanpid)$",
    re.IGNORECASE,
)
"""Parameters that name a visit or where it came from, never a page."""

SESSION_PATH = re.compile(r";(jsessionid|phpsessid|sid|sessionid)=[^/;?]*", re.IGNORECASE)
NUMBER = re.compile(r"\d+")
MARK = re.compile(r"(?=[A-Za-z]*\d|[^/]{24})[A-Za-z0-9_-]{16,}")
"""A segment that is a key rather than a word."""

DEFAULT_PORTS = {"http": 80, "https": 443}
SAFE = "!$&'()*+,;=:@/~-._%"


class Address(NamedTuple):
    """A page's address: `url` is asked for, `key` says which page it is, `origin` whose rules hold."""

    url: str
    key: str
    origin: str

    @property
    def shape(self) -> str:
        """The address with numbers and keys taken out: what pages from one template share."""
        parts = urlsplit(self.key)
        segments = [NUMBER.sub("0", MARK.sub("x", part)) for part in parts.path.split("/")]
        names = sorted({pair.partition("=")[0] for pair in parts.query.split("&") if pair})
        return f"{self.origin}{'/'.join(segments)}?{'&'.join(names)}"


def address(link: str, base: str = "") -> Address | None:
    """A link's address, without fragment and session; None for what is not http or https, or is malformed."""
    try:
        parts = urlsplit(urljoin(base, link.strip()))
        port, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not host or parts.username or parts.password:
        return None
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        return None
    if re.search(r"[\s<>\"'\\]", host):
        return None
    netloc = f"[{host}]" if ":" in host else host
    netloc += f":{port}" if port not in (None, DEFAULT_PORTS[parts.scheme]) else ""
    path = _path(parts)
    pairs = [pair for pair in parts.query.split("&") if pair and not SESSION.match(pair.partition("=")[0])]
    query = [_quoted(pair) for pair in pairs]
    origin = f"{parts.scheme}://{netloc}"
    url = urlunsplit((parts.scheme, netloc, path, "&".join(query), ""))
    key = urlunsplit((parts.scheme, netloc, path, "&".join(sorted(query)), ""))
    return Address(url, key, origin)


def _path(parts: SplitResult) -> str:
    """The path, `.` and `..` resolved, spelt with the escapes that it needs and no others."""
    path = SESSION_PATH.sub("", parts.path) or "/"
    kept: list[str] = []
    segments = path.split("/")[1:]
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        if segment == "..":
            kept = kept[:-1]
        elif segment != ".":
            kept.append(segment)
            continue
        if last:
            kept.append("")
    return _quoted("/" + "/".join(kept))


def _quoted(text: str) -> str:
    """One spelling: unreserved characters plain, hexadecimal digits of escapes in capitals."""

    def escape(match: re.Match[str]) -> str:
        plain = unquote(match[0], "latin-1")
        return plain if re.fullmatch(r"[A-Za-z0-9._~-]", plain) else match[0].upper()

    return quote(re.sub(r"%[0-9A-Fa-f]{2}", escape, text), safe=SAFE, errors="surrogatepass")


def path_trap(url: str) -> str:
    """Why an address looks like a path without end, or ""."""
    if len(url) > MOST_CHARACTERS:
        return "long_address"
    segments = [part for part in urlsplit(url).path.split("/") if part]
    if len(segments) > MOST_SEGMENTS:
        return "deep_path"
    if any(segments.count(part) > MOST_REPEATS for part in set(segments)):
        return "repeating_path"
    return ""
