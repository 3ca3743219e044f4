"""Sealed files: AES-256-GCM in chunks, so that a reader can start anywhere and a cut is noticed.

The construction is STREAM (Hoang, Reyhanitabar, Rogaway, Vizár, CRYPTO 2015): chunk i is encrypted
under a nonce that holds i and whether it is the last one.  Each file has a key of its own, derived
from the tenant's by HKDF with a random salt, so nonces never meet again.

    header   8 bytes magic, 1 version, 1 log2 of the chunk, 6 zero, 16 salt; authenticated with each chunk
    chunks   ciphertext and 16 bytes of tag each
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, BinaryIO

from l4_mmodel._kit.problems import Failed, Unavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MAGIC = b"OGAISEAL"
VERSION = 1
CHUNK_BITS = 20
HEADER = 32
TAG = 16
INFO = b"ogai l4 sealed file"


def derive(key: bytes, salt: bytes) -> bytes:
    """A file's key from its tenant's (RFC 5869)."""
    _need()
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt, INFO).derive(key)


class SealedWriter:
    """Encrypts what is written to `target`; `finish` writes the last chunk."""

    def __init__(self, target: BinaryIO, key: bytes, *, salt: bytes | None = None) -> None:
        salt = salt if salt is not None else os.urandom(16)
        self.header = MAGIC + bytes([VERSION, CHUNK_BITS]) + bytes(6) + salt
        self.cipher = _cipher(derive(key, salt))
        self.target = target
        self.number = 0
        self.held = bytearray()
        target.write(self.header)

    def write(self, data: bytes | memoryview) -> None:
        """Takes plain bytes; a chunk is written once it is known not to be the last."""
        self.held += data
        chunk = 1 << CHUNK_BITS
        position = 0
        while len(self.held) - position > chunk:
            self._chunk(bytes(memoryview(self.held)[position : position + chunk]), last=False)
            position += chunk
        if position:
            del self.held[:position]

    def finish(self) -> None:
        """Writes the last chunk."""
        self._chunk(bytes(self.held), last=True)
        self.held.clear()

    def _chunk(self, plain: bytes, *, last: bool) -> None:
        self.target.write(self.cipher.encrypt(_nonce(self.number, last), plain, self.header))
        self.number += 1


class SealedReader(io.RawIOBase):
    """The plain bytes of a sealed file; `Failed` as soon as one that was changed would be given out."""

    def __init__(self, source: BinaryIO, key: bytes, name: str = "content") -> None:
        super().__init__()
        self.source = source
        self.name = name
        self.header = source.read(HEADER)
        if len(self.header) < HEADER or self.header[:9] != MAGIC + bytes([VERSION]):
            raise Failed(f"{name}: is no sealed file", do="register the version again from its source")
        self.chunk = 1 << min(self.header[9], 30)
        self.cipher = _cipher(derive(key, self.header[16:]))
        body = source.seek(0, os.SEEK_END) - HEADER
        self.chunks = -(-body // (self.chunk + TAG))
        self.size = body - self.chunks * TAG
        self.position = 0
        self.loaded = -1
        self.plain = b""
        if self.size <= 0:  # an empty file has one chunk too, which nobody would read
            self._load(0)

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The position in the plain bytes."""
        return self.position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to a position of the plain bytes."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.position, os.SEEK_END: self.size}[whence]
        self.position = max(0, start + offset)
        return self.position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fills a buffer from one chunk."""
        number = self.position // self.chunk
        if self.position >= self.size:
            return 0
        if number != self.loaded:
            self._load(number)
        part = self.plain[self.position - number * self.chunk :][: len(buffer)]
        buffer[: len(part)] = part
        self.position += len(part)
        return len(part)

    def close(self) -> None:
        """Closes the file below."""
        self.source.close()
        super().close()

    def _load(self, number: int) -> None:
        from cryptography.exceptions import InvalidTag

        self.source.seek(HEADER + number * (self.chunk + TAG))
        sealed = self.source.read(self.chunk + TAG)
        try:
            nonce = _nonce(number, number == self.chunks - 1)
            self.plain = self.cipher.decrypt(nonce, sealed, self.header)
        except InvalidTag:
            raise Failed(
                f"{self.name}: the stored content was changed, or is another tenant's",
                do="delete the version and register it again from its source",
            ) from None
        self.loaded = number


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _need() -> None:
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError as error:
        raise Unavailable(
            "encryption needs the library cryptography", do="pip install 'l4-mmodel[encryption]'"
        ) from error
