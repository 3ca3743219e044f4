"""Answers with bytes that are no plain file on disk: whole, or the one range that was asked for."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import BinaryIO

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

COPY = 1 << 20
RANGE = re.compile(r"^bytes=(\d*)-(\d*)$")


def sealed_response(request: Request, stream: BinaryIO, headers: dict[str, str]) -> Response:
    """The stream's bytes (RFC 9110, section 14); of several ranges the whole is given, as it allows."""
    size = stream.seek(0, io.SEEK_END)
    start, end, status = _wanted(request.headers.get("range", ""), size)
    headers = {**headers, "accept-ranges": "bytes"}
    if status == 416:
        stream.close()
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{size}"})
    headers["content-length"] = str(end - start)
    if status == 206:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    if request.method == "HEAD":
        stream.close()
        return Response(status_code=status, headers=headers)
    stream.seek(start)
    return StreamingResponse(
        _pieces(stream, end - start), status, headers, media_type="application/octet-stream"
    )


def _wanted(asked: str, size: int) -> tuple[int, int, int]:
    """First byte, the one after the last, and the status."""
    found = RANGE.match(asked.strip())
    if found is None or found.groups() == ("", ""):
        return 0, size, 200
    first, last = found.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    return (start, end, 206) if start < end else (0, 0, 416)


def _pieces(stream: BinaryIO, count: int) -> Iterator[bytes]:
    with stream:
        while count > 0 and (piece := stream.read(min(COPY, count))):
            count -= len(piece)
            yield piece
