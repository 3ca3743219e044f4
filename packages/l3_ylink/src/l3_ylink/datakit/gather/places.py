"""Where files lie: a folder, or a place on another file system (S3 and the like) by fsspec."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import urlsplit

import xxhash
import zstandard

from l3_ylink._kit.problems import BadInput, Unavailable

EXTRAS = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "hdfs": "pyarrow"}
VERSION = ("ETag", "etag", "mtime", "LastModified", "created", "size")
PACKED = {".gz": "gzip", ".zst": "zstd"}


class File(NamedTuple):
    """A file: its name below its place, its size, and a number that changes when it does."""

    name: str
    bytes: int
    version: int


def is_remote(place: str) -> bool:
    """Whether a place is an address of another file system."""
    return "://" in place


def list_files(place: str | Path) -> Iterator[File]:
    """The files below a place, in the order of their names; hidden ones and links outside are left out."""
    return _remote_files(str(place)) if is_remote(str(place)) else _local_files(Path(place))


def _local_files(folder: Path) -> Iterator[File]:
    root = folder.resolve()
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
            inside = not path.is_symlink() or path.resolve().is_relative_to(root)
            if not name.startswith(".") and inside and path.is_file():
                found.append(path)
    for path in sorted(found, key=str):
        about = path.stat()
        yield File(_named(path.relative_to(folder).as_posix()), about.st_size, about.st_mtime_ns)


def _named(relative: str) -> str:
    """The name, which is a document's id later and so must be text."""
    try:
        relative.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"the name of a file is not UTF-8: {os.fsencode(relative)!r}",
            field="input",
            do="rename it, as with `convmv -f gb18030 -t utf-8 -r --notest FOLDER`",
        ) from error
    return relative


def _remote_files(place: str) -> Iterator[File]:
    system, root = file_system(place)
    try:
        found = system.find(root, detail=True)
    except Exception as error:
        raise _unreachable(place, error) from error
    for path, about in sorted(found.items()):
        name = str(path).removeprefix(root.rstrip("/")).lstrip("/")
        if about.get("type", "file") == "file" and not any(part.startswith(".") for part in name.split("/")):
            marks = [str(about.get(key)) for key in VERSION]
            yield File(name, int(about.get("size") or 0), xxhash.xxh3_64_intdigest("|".join(marks)) >> 1)


def file_system(place: str) -> tuple[Any, str]:
    """The file system of an address, and the path there; keys come from the environment."""
    try:
        parts = urlsplit(place)
    except ValueError as error:
        raise BadInput("is no address", field=place) from error
    if parts.password:
        raise BadInput("holds a password", field="at", do="put keys into the environment or its own file")
    try:
        import fsspec
    except ImportError as error:
        raise Unavailable("fsspec is not installed", do="pip install 'l3-ylink[remote]'") from error
    try:
        system, path = fsspec.core.url_to_fs(place)
    except ImportError as error:
        name = EXTRAS.get(parts.scheme, parts.scheme)
        raise Unavailable(f"{name} is not installed", why=str(error), do=f"pip install {name}") from error
    except ValueError as error:
        raise BadInput(f"{place}: {error}", field="at") from error
    return system, str(path)


def _unreachable(place: str, error: Exception) -> Unavailable:
    return Unavailable(
        f"{place} cannot be read", why=f"{type(error).__name__}: {error}", do="check the address and the keys"
    )


def open_bytes(folder: Path | str, name: str) -> BinaryIO:
    """Opens a file: below `folder`, or by its own address.  Failures are `OSError`."""
    if not is_remote(name):
        return open(Path(folder) / name, "rb")
    system, path = file_system(name)
    try:
        return io.BufferedReader(system.open(path, "rb"), 1 << 20)  # lines of bounded length come from it
    except OSError:
        raise
    except Exception as error:  # each file system has faults of its own
        raise OSError(0, f"{type(error).__name__}: {error}") from error


def unpacked(stream: BinaryIO, name: str) -> BinaryIO:
    """The content of a stream as it is read, unpacked if its name says so; packed parts in a row are one."""
    kind = PACKED.get(PurePosixPath(name.lower()).suffix)
    if kind == "gzip":
        return cast("BinaryIO", gzip.GzipFile(fileobj=stream))
    if kind == "zstd":
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(
            stream, read_across_frames=True
        )
        return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", reader), 1 << 20))
    return stream
