"""Addresses: the site of a document, rules by domain and word, and one spelling for equal addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np
import numpy.typing as npt
import xxhash

from l3_ylink._kit.problems import BadInput

TRACKING = re.compile(r"(utm_\w+|fbclid|gclid|msclkid|spm|from_source|share_token|sessionid|phpsessid|sid)$")
WORD = re.compile(r"[a-z0-9]+")
HOST = re.compile(r"[\w-]+(\.[\w-]+)*\.?")


def host_of(url: str) -> str:
    """The host of an address in lower case, without `www.`; "" where it has none."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return host.rstrip(".").removeprefix("www.")


def site_of(url: str, path: str) -> str:
    """The site of a document: the host of its address, else the first folder of its path, else ""."""
    return host_of(url) or (path.split("/", 1)[0] if "/" in path else "")


def canonical(url: str) -> str:
    """One spelling for addresses of one page; "" for what is no address of a host.

    Scheme, `www.`, default ports, fragments, tracking parameters, the order of parameters and a last slash
    make no difference.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = host_of(url)
    if not host:
        return ""
    place = f":{port}" if port not in (None, 80, 443) else ""
    kept = sorted(
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if not TRACKING.match(name.lower())
    )
    query = f"?{urlencode(kept)}" if kept else ""
    return f"{host}{place}{parts.path.rstrip('/')}{query}"


def read_domains(path: Path) -> list[str]:
    """Domains of a block list: one a line, or as in a hosts file (`0.0.0.0 name`); `#` begins a remark."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput("cannot be read", field=str(path), why=str(error), do="give a text file") from error
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        name = words[-1].lower().removeprefix("*.").removeprefix("www.")
        if len(words) > 2 or not HOST.fullmatch(name):
            raise BadInput(f"line {number} is no domain: {line.strip()!r}", field=str(path))
        found.append(name.rstrip("."))
    return found


class DomainSet:
    """Domains as sorted hashes: 8 bytes each, whatever their number."""

    def __init__(self, domains: Iterable[str]) -> None:
        hashes = {xxhash.xxh3_64_intdigest(domain) for domain in domains}
        self._hashes: npt.NDArray[np.uint64] = np.asarray(sorted(hashes), np.uint64)

    def match(self, host: str) -> str:
        """The domain of the set that the host is or lies below; "" if there is none."""
        labels = host.split(".")
        for first in range(len(labels)):
            domain = ".".join(labels[first:])
            wanted = np.uint64(xxhash.xxh3_64_intdigest(domain))
            at = int(np.searchsorted(self._hashes, wanted))
            if at < len(self._hashes) and self._hashes[at] == wanted:
                return domain
        return ""


def words_of(url: str) -> set[str]:
    """The words of an address: its letters and digits between other characters."""
    return set(WORD.findall(url.lower()))
