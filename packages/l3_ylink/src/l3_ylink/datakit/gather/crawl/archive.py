"""The WARC files of a crawl: a gzip member for each record, so that a file cut at one is still sound.

A file is hidden (`.….open`) until it is full.  After a kill it is cut back to the end of the last record
that the frontier knows; what lay behind it is fetched again.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

OPEN = ".open"
NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
Headers = Sequence[tuple[str, str]]


class Exchange(NamedTuple):
    """One request with its answer, as they went over the wire (transfer coding taken off)."""

    url: str
    asked: Headers
    status: int
    phrase: str
    headers: Headers
    body: bytes
    date: str
    address: str = ""
    cut: str = ""


class Archive:
    """Writes exchanges to numbered files of one crawl."""

    def __init__(self, folder: Path, prefix: str, info: dict[str, str], most_bytes: int) -> None:
        self.folder, self.prefix, self.info, self.most_bytes = folder, prefix, info, most_bytes
        self.number = 0
        self.stream: io.BufferedWriter | None = None

    def go_on(self, place: tuple[int, int] | None) -> None:
        """Takes up the file and the length that the frontier knows; cuts off and removes what came after."""
        self.number, length = place or (0, 0)
        whole = self.folder.glob(f"{self.prefix}-*.warc.gz")
        for path in [*whole, *self.folder.glob(f".{self.prefix}-*.warc.gz{OPEN}")]:
            number = int(path.name.partition(f"{self.prefix}-")[2][:5])
            if number > self.number or (number == self.number and not length):
                path.unlink()
        for path in (self._path(self.number), self._path(self.number, OPEN)):
            if length and path.exists():
                os.truncate(path, min(length, path.stat().st_size))
                if path.suffix != OPEN:
                    os.replace(path, self._path(self.number, OPEN))

    def _path(self, number: int, suffix: str = "") -> Path:
        hidden = "." if suffix else ""  # who reads the folder does not see a file that is being written
        return self.folder / f"{hidden}{self.prefix}-{number:05d}.warc.gz{suffix}"

    def write(self, exchange: Exchange, *, seen: tuple[str, str] | None = None) -> tuple[int, int]:
        """Adds an exchange; returns the place after it: file number and length.

        `seen`: digest and date of an earlier record with the same payload; then the answer is a revisit
        record, which names it and leaves the payload out.
        """
        writer = self._writer()
        about = {"WARC-Date": exchange.date}
        if exchange.address:
            about["WARC-IP-Address"] = exchange.address
        if exchange.cut:
            about["WARC-Truncated"] = exchange.cut
        answer = StatusAndHeaders(
            f"{exchange.status} {exchange.phrase}", list(exchange.headers), protocol="HTTP/1.1"
        )
        if seen is None:
            record = writer.create_warc_record(
                exchange.url, "response", io.BytesIO(exchange.body), len(exchange.body),
                warc_headers_dict=about, http_headers=answer,
            )  # fmt: skip
        else:
            record = writer.create_revisit_record(
                exchange.url, seen[0], exchange.url, seen[1], http_headers=answer, warc_headers_dict=about
            )
            if exchange.status == 304:
                record.rec_headers.replace_header("WARC-Profile", NOT_MODIFIED)
        request = writer.create_warc_record(
            exchange.url, "request", http_headers=StatusAndHeaders(
                f"GET {_target(exchange.url)} HTTP/1.1", list(exchange.asked), is_http_request=True
            ),
        )  # fmt: skip
        writer.write_request_response_pair(request, record)
        return self._flushed()

    def _writer(self) -> WARCWriter:
        if self.stream is None:
            path = self._path(self.number, OPEN)
            self.folder.mkdir(parents=True, exist_ok=True)
            self.stream = open(path, "ab")  # noqa: SIM115 (open until the file is full)
            if not self.stream.tell():
                writer = WARCWriter(self.stream, gzip=True, warc_version="1.1")
                writer.write_record(writer.create_warcinfo_record(self._path(self.number).name, self.info))
        return WARCWriter(self.stream, gzip=True, warc_version="1.1")

    def _flushed(self) -> tuple[int, int]:
        assert self.stream is not None
        self.stream.flush()
        length = self.stream.tell()
        place = (self.number, length)
        if length >= self.most_bytes:
            self.close()
            self.number += 1
            return self.number, 0
        return place

    def close(self) -> None:
        """Ends the file that is being written: it gets its name."""
        if self.stream is None:
            return
        os.fsync(self.stream.fileno())
        self.stream.close()
        self.stream = None
        os.replace(self._path(self.number, OPEN), self._path(self.number))

    def finish(self) -> None:
        """Gives its name to the last file, also where nothing was added to it since a kill."""
        self.close()
        path = self._path(self.number, OPEN)
        if path.exists():
            os.replace(path, self._path(self.number))


def payload_digest(body: bytes) -> str:
    """A payload's digest, as WARC files write it."""
    return "sha1:" + base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()


def _target(url: str) -> str:
    return "/" + url.partition("://")[2].partition("/")[2]
