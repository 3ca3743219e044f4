"""Files by digest.  One folder a tenant: equal content of two tenants is neither shared nor revealed.

blobs/TENANT/ab/ab12…     the content, read-only
staging/ID/               an import under way, with a lock that dies with its process
views/TENANT/DIGEST/      a version's files under their names, hard links to the content
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from l4_mmodel._kit.problems import BadInput, Failed
from l4_mmodel.security.paths import open_inside

CHUNK = 4 << 20


class Blobs:
    """The content store below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cleared = False
        for name in ("blobs", "staging", "views"):
            (root / name).mkdir(parents=True, exist_ok=True, mode=0o700)

    def path(self, tenant: str, digest: str) -> Path:
        """Where content lies."""
        hexdigest = digest.removeprefix("sha256:")
        return self.root / "blobs" / tenant / hexdigest[:2] / hexdigest

    @contextlib.contextmanager
    def staging(self) -> Iterator[Path]:
        """A folder for an import, gone at the end; collection waits for it."""
        if not self.cleared:
            with contextlib.suppress(BlockingIOError), self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB):
                self._clear_staging()  # nobody imports now: what lies there is a killed import's
            self.cleared = True
        with self._lock(fcntl.LOCK_SH):
            folder = self.root / "staging" / secrets.token_hex(8)
            folder.mkdir(mode=0o700)
            try:
                yield folder
            finally:
                _remove(folder)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """No import is under way anywhere, and none begins; leftovers of killed ones are gone."""
        with self._lock(fcntl.LOCK_EX):
            self._clear_staging()
            yield

    def _clear_staging(self) -> None:
        for folder in (self.root / "staging").iterdir():
            shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        with open(self.root / "blobs.lock", "a", encoding="utf-8") as stream:
            fcntl.flock(stream, kind)
            yield

    def put(self, tenant: str, staged: Path, digest: str) -> None:
        """Moves a staged file, already on disk, to its place; content that is there stays."""
        place = self.path(tenant, digest)
        if place.exists():
            return
        staged.chmod(0o400)
        try:
            os.replace(staged, place)
        except FileNotFoundError:  # the first content of this folder
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.replace(staged, place)
        sync_folder(place.parent)

    def verify(self, tenant: str, files: dict[str, str]) -> None:
        """Re-reads every file of `files` (name → digest); `Failed` names one that was changed."""
        for name, digest in files.items():
            path = self.path(tenant, digest)
            try:
                with open(path, "rb") as stream:
                    found = hashlib.file_digest(stream, "sha256").hexdigest()
            except FileNotFoundError as error:
                raise Failed(
                    f"{name}: its content is gone from the store", do="register the version again"
                ) from error
            if found != digest.removeprefix("sha256:"):
                raise Failed(
                    f"{name}: the stored content was changed",
                    why=f"its SHA-256 is {found}, registered was {digest.removeprefix('sha256:')}",
                    do="delete the version and register it again from its source",
                )

    def view(self, tenant: str, version_digest: str, files: dict[str, str]) -> Path:
        """A folder with the version's files under their names (hard links: no byte is copied)."""
        folder = self.root / "views" / tenant / version_digest.removeprefix("sha256:")
        if not folder.exists():
            part = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
            for name, digest in files.items():
                place = part / name
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.link(self.path(tenant, digest), place)
            with contextlib.suppress(OSError):  # another process was first: its folder is the same
                part.rename(folder)
            shutil.rmtree(part, ignore_errors=True)
        return folder

    def drop_view(self, tenant: str, version_digest: str) -> None:
        """Removes a version's folder of names."""
        folder = self.root / "views" / tenant / version_digest.removeprefix("sha256:")
        shutil.rmtree(folder, ignore_errors=True)

    def collect(self, referenced: set[tuple[str, str]], *, dry_run: bool) -> list[tuple[str, str, int]]:
        """Removes content that no (tenant, digest) of `referenced` names; call inside `alone()`."""
        gone = []
        for path in sorted((self.root / "blobs").glob("*/??/*")):
            tenant, digest = path.parent.parent.name, f"sha256:{path.name}"
            if (tenant, digest) not in referenced:
                gone.append((tenant, digest, path.stat().st_size))
                if not dry_run:
                    path.unlink()
        return gone


def stage(folder: Path, uri: str, into: Path | None, *, expected: str, size: int) -> None:
    """Reads `uri` once: hashes it and, with `into`, copies it there and flushes it to disk.

    `BadInput` when digest or size are not the expected ones.
    """
    with open_inside(folder, uri) as source:
        have = os.fstat(source).st_size
        if have != size:
            raise BadInput(f"has {have} bytes, the manifest says {size}", field=uri, do="fetch it again")
        found = copy_and_hash(source, into)
    if found != expected:
        raise BadInput(
            "its content is not what the manifest says",
            field=uri,
            why=f"SHA-256 is {found.removeprefix('sha256:')}, expected {expected.removeprefix('sha256:')}",
            do="fetch the file again, or write the manifest anew if the change was meant",
        )


def copy_and_hash(source: int, into: Path | None) -> str:
    """The digest of what `source` holds; what is hashed is also what is written to `into`."""
    hasher = hashlib.sha256()
    buffer = memoryview(bytearray(min(CHUNK, os.fstat(source).st_size + 1)))
    target = None if into is None else os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        while count := os.readv(source, [buffer]):
            hasher.update(buffer[:count])
            if target is not None:
                _write_all(target, buffer[:count])
        if target is not None:
            os.fdatasync(target)
    finally:
        if target is not None:
            os.close(target)
    return f"sha256:{hasher.hexdigest()}"


def _remove(folder: Path) -> None:
    try:
        folder.rmdir()  # all that was staged has moved to its place
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def _write_all(target: int, data: memoryview) -> None:
    while data:
        data = data[os.write(target, data) :]


def sync_folder(folder: Path) -> None:
    """Makes a rename inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
