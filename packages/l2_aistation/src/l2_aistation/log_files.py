"""Diagnosis of log files: any size, any encoding, no service needed."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from ._kit.problems import BadInput
from .core.diagnosis import Diagnosis, Stream, diagnose_lines
from .flight_dumps import is_dump, read_dump

_MOST_OF_A_LINE = 64 * 1024


def diagnose(paths: Sequence[Path | str]) -> Diagnosis:
    """Names the first cause in the logs of ranks and kernels, or "unknown".

    Files are read as streams, so memory does not grow with them; bytes that are no UTF-8 are
    replaced; `.gz` is unpacked.  Flight Recorder dumps (as PyTorch writes them, or as JSON) may be
    among the files: they name the rank that the others wait for.  `BadInput` names a file that cannot
    be read.
    """
    if not paths:
        raise BadInput(
            "no file is given", field="files", do="give the logs of the ranks, and dmesg where you have it"
        )
    files = [Path(path) for path in paths]
    dumps = [path for path in files if is_dump(path)]
    streams = [Stream(path.name, _lines(path)) for path in files if path not in dumps]
    return diagnose_lines(streams, [read_dump(path) for path in dumps])


def _lines(path: Path) -> Iterator[str]:
    try:
        with _opened(path) as stream:
            while raw := stream.readline(_MOST_OF_A_LINE):
                yield raw.decode("utf-8", "replace").rstrip("\r\n")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"cannot be read: {reason}", field=str(path), do="check the path and its rights"
        ) from error


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]  # a GzipFile reads as one
    return open(path, "rb")
