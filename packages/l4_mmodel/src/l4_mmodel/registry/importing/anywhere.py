"""Models in any place that fsspec reads: `s3://bucket/folder`, `https://…`, `sftp://…`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from l4_mmodel._kit.problems import BadInput, NotFound, Unavailable

from .downloads import RemoteFile

CHUNK = 1 << 20


class AnywhereSource:
    """A folder of a file system.  Such places tell sizes, no digests; ours are made on arrival."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ModuleNotFoundError as error:
            raise Unavailable("no fsspec", do="pip install 'l4-mmodel[remote]'") from error
        self.url = url
        try:
            self.system, self.root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise BadInput(
                f"cannot be read: {error}",
                field="source",
                do="install the file system's package, or check it",
            ) from error
        self.root = self.root.rstrip("/")
        self.version = "1"

    @property
    def name(self) -> str:
        """The last part of the address."""
        return str(self.root.rpartition("/")[2])

    @property
    def identity(self) -> str:
        """The address, and the sizes and times of what lies there: a changed source is another one."""
        marks = ("size", "ETag", "mtime", "LastModified")
        told = [
            (path, [str(row[mark]) for mark in marks if mark in row])
            for path, row in sorted(self._rows().items())
        ]
        return f"{self.url}#{hashlib.sha256(repr(told).encode()).hexdigest()}"

    def files(self) -> list[RemoteFile]:
        """Every file below the address with its size."""
        return [
            RemoteFile(path.removeprefix(f"{self.root}/"), int(row["size"]))
            for path, row in self._rows().items()
        ]

    def open_at(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        """The file's bytes from `offset` on."""
        try:
            with self.system.open(f"{self.root}/{file.path}", "rb") as stream:
                stream.seek(offset)
                while chunk := stream.read(CHUNK):
                    yield chunk
        except OSError as error:
            raise Unavailable(
                f"{file.path}: the download broke off", why=str(error), do="import again: it goes on"
            ) from error

    def close(self) -> None:
        """Nothing is held open."""

    def _rows(self) -> dict[str, Any]:
        try:
            rows = self.system.find(self.root, detail=True)
        except OSError as error:
            raise Unavailable(f"{self.url} does not answer", why=str(error)) from error
        if not rows:
            raise NotFound(f"nothing lies at {self.url}")
        return {path: row for path, row in rows.items() if row.get("type") == "file"}
