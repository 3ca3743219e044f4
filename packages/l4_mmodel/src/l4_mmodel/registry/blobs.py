"""Files by digest.  One folder a tenant: equal content of two tenants is neither shared nor revealed.

blobs/TENANT/ab/ab12…     the content, read-only
sealed/TENANT/cd/cd34…    the same, encrypted by the tenant's key under a name that tells nothing
staging/ID/               an import under way, with a lock that dies with its process
views/TENANT/DIGEST/      a version's files under their names, hard links to the content
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from l4_mmodel._kit.problems import BadInput, Failed
from l4_mmodel.security.keyring import KeyRing
from l4_mmodel.security.paths import open_inside
from l4_mmodel.security.sealing import SealedReader, SealedWriter

from .plain import PlainViews, changed

CHUNK = 4 << 20
COPY = 1 << 20


class Blobs:
    """The content store below `root`."""

    def __init__(self, root: Path, *, memory: Path, ring: KeyRing | None = None) -> None:
        self.root = root
        self.ring = ring
        self.plain = PlainViews(memory, root)
        self.cleared = False
        for name in ("blobs", "sealed", "staging", "views"):
            (root / name).mkdir(parents=True, exist_ok=True, mode=0o700)

    def place(self, tenant: str, digest: str) -> Path:
        """Where new content goes: sealed if there is a key ring."""
        if self.ring is None:
            hexdigest = digest.removeprefix("sha256:")
            return self.root / "blobs" / tenant / hexdigest[:2] / hexdigest
        name = self.ring.name(tenant, digest)
        return self.root / "sealed" / tenant / name[:2] / name

    def has(self, tenant: str, digest: str) -> bool:
        """Whether the tenant has content of this digest in the form that new content takes."""
        return self.place(tenant, digest).exists()

    def open(self, tenant: str, digest: str, name: str = "content") -> BinaryIO:
        """The plain bytes, seekable; `Failed` where they are gone."""
        for blobs in (self, Blobs.unsealed(self.root)) if self.ring is not None else (self,):
            path = blobs.place(tenant, digest)
            try:
                stream = open(path, "rb")  # noqa: SIM115 (given to the caller)
            except FileNotFoundError:
                continue
            return stream if blobs.ring is None else self._reading(stream, tenant, name)
        if self.ring is None and any((self.root / "sealed" / tenant).glob("*/*")):
            raise Failed(
                f"{name}: its content is sealed, and encryption is off here", do="set OGAI_L4_ENCRYPT=1"
            )
        raise Failed(f"{name}: its content is gone from the store", do="register the version again")

    @classmethod
    def unsealed(cls, root: Path) -> Blobs:
        """The same store's plain part."""
        found = cls.__new__(cls)
        found.root, found.ring = root, None
        return found

    def open_staged(self, staged: Path, tenant: str, name: str) -> BinaryIO:
        """The plain bytes of a staged file."""
        stream = open(staged, "rb")  # noqa: SIM115 (given to the caller)
        return stream if self.ring is None else self._reading(stream, tenant, name)

    def _reading(self, stream: BinaryIO, tenant: str, name: str) -> BinaryIO:
        assert self.ring is not None
        return io.BufferedReader(SealedReader(stream, self.ring.key(tenant), name), COPY)

    def stage(
        self, folder: Path, uri: str, into: Path | None, *, tenant: str, expected: str, size: int
    ) -> None:
        """`stage` of this module, sealed where this store seals."""
        key = self.ring.key(tenant) if self.ring is not None else None
        stage(folder, uri, into, expected=expected, size=size, key=key)

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
        place = self.place(tenant, digest)
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
            with self.open(tenant, digest, name) as stream:
                found = hash_of(stream)
            if found != digest:
                raise changed(name, found, digest)

    def checked_view(self, tenant: str, version_digest: str, files: dict[str, str]) -> Path:
        """`verify`, then `view`; sealed content is checked while it is opened, in one pass."""
        if self.ring is None:
            self.verify(tenant, files)
        return self.view(tenant, version_digest, files)

    def view(self, tenant: str, version_digest: str, files: dict[str, str]) -> Path:
        """A folder with the version's files under their names (hard links: no byte is copied).

        Sealed content is opened into memory for as long as this process lives.
        """
        if self.ring is not None:
            sources = {
                name: (functools.partial(self.open, tenant, digest, name), digest)
                for name, digest in files.items()
            }
            return self.plain.open(tenant, version_digest, sources)
        folder = self.root / "views" / tenant / version_digest.removeprefix("sha256:")
        if not folder.exists():
            part = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
            for name, digest in files.items():
                place = part / name
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.link(self.place(tenant, digest), place)
            with contextlib.suppress(OSError):  # another process was first: its folder is the same
                part.rename(folder)
            shutil.rmtree(part, ignore_errors=True)
        return folder

    def drop_views(self) -> None:
        """Removes every folder of names: those of content that was sealed must not stay."""
        for folder in (self.root / "views").iterdir():
            shutil.rmtree(folder, ignore_errors=True)

    def drop_view(self, tenant: str, version_digest: str) -> None:
        """Removes a version's folder of names."""
        folder = self.root / "views" / tenant / version_digest.removeprefix("sha256:")
        shutil.rmtree(folder, ignore_errors=True)

    def collect(self, referenced: set[tuple[str, str]], *, dry_run: bool) -> list[tuple[str, str, int]]:
        """Removes content that no (tenant, digest) of `referenced` names; call inside `alone()`."""
        plain = Blobs.unsealed(self.root)
        wanted = {blobs.place(*each) for blobs in (self, plain) for each in referenced}
        gone = []
        for kind, word in (("blobs", "sha256"), ("sealed", "sealed")):
            if kind == "sealed" and self.ring is None:
                continue  # without the keys nobody can tell what is wanted
            for path in sorted((self.root / kind).glob("*/??/*")):
                if path not in wanted:
                    gone.append((path.parent.parent.name, f"{word}:{path.name}", path.stat().st_size))
                    if not dry_run:
                        path.unlink()
        return gone

    def seal(self, tenant: str, digest: str) -> int:
        """Seals content that lies there plain; returns its bytes, 0 where there was nothing to do."""
        if self.ring is None:
            raise BadInput("is off", field="encrypt", do="set OGAI_L4_ENCRYPT=1 first")
        plain = Blobs.unsealed(self.root).place(tenant, digest)
        if not plain.exists():
            return 0
        size = plain.stat().st_size
        if not self.has(tenant, digest):
            with self.staging() as folder:
                self.stage(plain.parent, plain.name, folder / "0", tenant=tenant, expected=digest, size=size)
                self.put(tenant, folder / "0", digest)
        plain.unlink()
        return size


def stage(
    folder: Path, uri: str, into: Path | None, *, expected: str, size: int, key: bytes | None = None
) -> None:
    """Reads `uri` once: hashes it and, with `into`, copies (and with `key` seals) it there, on disk.

    `BadInput` when digest or size are not the expected ones.
    """
    with open_inside(folder, uri) as source:
        have = os.fstat(source).st_size
        if have != size:
            raise BadInput(f"has {have} bytes, the manifest says {size}", field=uri, do="fetch it again")
        found = copy_and_hash(source, into, key)
    if found != expected:
        raise BadInput(
            "its content is not what the manifest says",
            field=uri,
            why=f"SHA-256 is {found.removeprefix('sha256:')}, expected {expected.removeprefix('sha256:')}",
            do="fetch the file again, or write the manifest anew if the change was meant",
        )


def copy_and_hash(source: int, into: Path | None, key: bytes | None = None) -> str:
    """The digest of what `source` holds; what is hashed is also what is written to `into`."""
    hasher = hashlib.sha256()
    buffer = memoryview(bytearray(min(CHUNK, os.fstat(source).st_size + 1)))
    with contextlib.ExitStack() as stack:
        write: Callable[[memoryview], object] = lambda _: None  # noqa: E731 (nothing is copied)
        finish: Callable[[], None] = lambda: None  # noqa: E731
        if into is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            target = stack.enter_context(open(os.open(into, flags, 0o600), "wb", buffering=0))
            write = functools.partial(_write_all, target.fileno())
            if key is not None:
                sealing = SealedWriter(target, key)
                write, finish = sealing.write, sealing.finish
        while count := os.readv(source, [buffer]):
            hasher.update(buffer[:count])
            write(buffer[:count])
        finish()
        if into is not None:
            os.fdatasync(target.fileno())
    return f"sha256:{hasher.hexdigest()}"


def hash_of(stream: BinaryIO) -> str:
    """The digest of what a stream holds."""
    hasher = hashlib.sha256()
    while chunk := stream.read(COPY):
        hasher.update(chunk)
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
