"""Reads the files that a diagnosis is given: any size, any bytes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from l1_podsys._kit.problems import BadInput

MOST_BYTES = 64 << 20


def decode(data: bytes) -> str:
    """Text of a log: UTF-8 or UTF-16, with what is neither replaced; terminal colours stay harmless."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "replace").replace("\x00", "")


def read_texts(files: Iterable[Path]) -> dict[str, str]:
    """The texts by file name; of a huge file the last part, where the fault is."""
    texts: dict[str, str] = {}
    for path in files:
        if str(path) == "-":
            texts["stdin"] = decode(sys.stdin.buffer.read(MOST_BYTES))
            continue
        try:
            with open(path, "rb") as stream:
                size = stream.seek(0, 2)
                stream.seek(max(0, size - MOST_BYTES))
                texts[path.name if path.name not in texts else str(path)] = decode(stream.read())
        except OSError as error:
            reason = "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
            raise BadInput(reason, field=str(path), do="check the path") from error
    if not any(text.strip() for text in texts.values()):
        raise BadInput(
            "holds nothing to look at", field="files", do="give dmesg, lspci -vvv or a tool's output"
        )
    return texts
