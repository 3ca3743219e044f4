"""Reading WARC files: our documents beside warcio's iterator over the same records, CPU seconds.

Both read every body to its end and take its coding off; ours also finds damage, and keeps documents only.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from l3_ylink.datakit.gather.listing import Piece
from l3_ylink.datakit.gather.warc import warc_records
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

PAGES = 20_000
BAR = 1.5
WORDS = [f"word{number:x}" for number in range(4_000)]


def write(path: Path) -> None:
    """Pages of about 6 kB, a third of them packed as servers send them."""
    rng = random.Random(0)
    with open(path, "wb") as stream:
        writer = WARCWriter(stream, gzip=True, warc_version="1.1")
        for number in range(PAGES):
            body = f"<html><body><p>{' '.join(rng.choices(WORDS, k=800))}</p></body></html>".encode()
            headers = [("Content-Type", "text/html; charset=utf-8")]
            if number % 3 == 0:
                body = gzip.compress(body, 6)
                headers.append(("Content-Encoding", "gzip"))
            http = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
            url = f"http://site.example/{number}"
            writer.write_record(
                writer.create_warc_record(url, "response", io.BytesIO(body), len(body), http_headers=http)
            )


def ours(path: Path) -> int:
    piece = Piece(0, path.name, path.stat().st_size, 0)
    return sum(len(record.body) for record in warc_records(path.parent, piece))


def theirs(path: Path) -> int:
    with open(path, "rb") as stream:
        return sum(len(record.content_stream().read()) for record in ArchiveIterator(stream))


def seconds(work: object, path: Path) -> tuple[float, int]:
    start = time.process_time()
    size = work(path)  # type: ignore[operator]
    return time.process_time() - start, size


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pages.warc.gz")
        write(path)
        mine = min(seconds(ours, path) for _ in range(3))
        peer = min(seconds(theirs, path) for _ in range(3))
    assert mine[1] == peer[1]
    rates = PAGES / mine[0], PAGES / peer[0]
    ratio = rates[0] / rates[1]
    row = {
        "layer": "l3", "name": "warc read", "ours": round(rates[0]), "peer": round(rates[1]),
        "peer_version": f"warcio {version('warcio')}", "ratio": round(ratio, 2), "unit": "records/s of CPU",
        "how": f"{PAGES} pages of 6 kB, a third gzip-coded; best of 3; on fastwarc {version('fastwarc')}",
        "bar": f">= {BAR}x", "ok": ratio >= BAR,
    }  # fmt: skip
    print(json.dumps([row], indent=1))


if __name__ == "__main__":
    main()
