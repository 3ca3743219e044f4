"""Keys at rest: one key a tenant, wrapped by the master key.

    master.key      32 bytes in hex, readable by its owner only; `master_key_file` puts it elsewhere
    keys/TENANT     the tenant's key, wrapped by the master (RFC 3394)

Without a tenant's key its content is noise: erasing the key erases the content (crypto-erase), also in
backups that do not hold the key.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from l4_mmodel._kit.problems import BadInput, Failed, NotFound

from .sealing import _need


class KeyRing:
    """The tenants' keys below `folder`; made when they are first needed."""

    def __init__(self, master_file: Path, folder: Path) -> None:
        _need()
        self.master_file = master_file
        self.folder = folder
        self._keys: dict[str, bytes] = {}

    def key(self, tenant: str) -> bytes:
        """The tenant's 32 bytes; `Failed` where the master key is not the one that wrapped it."""
        path = self.folder / tenant
        try:
            stamp = path.stat().st_mtime_ns
        except FileNotFoundError:
            self._keys.pop(tenant, None)
            self._make(path)
            stamp = path.stat().st_mtime_ns
        found = self._keys.get(tenant)
        if found is None or found[:8] != stamp.to_bytes(8, "big"):
            found = self._keys[tenant] = stamp.to_bytes(8, "big") + self._unwrap(tenant, path)
        return found[8:]

    def name(self, tenant: str, digest: str) -> str:
        """The name of content in the store: tells nothing of it without the tenant's key."""
        return hmac.new(self.key(tenant), b"name:" + digest.encode(), hashlib.sha256).hexdigest()

    def erase(self, tenant: str) -> None:
        """Overwrites and removes the tenant's key: its content cannot be read any more by anybody."""
        path = self.folder / tenant
        if not path.exists():
            raise NotFound(f"tenant {tenant!r} has no key")
        with open(path, "r+b") as stream:
            stream.write(bytes(path.stat().st_size))
            stream.flush()
            os.fsync(stream.fileno())
        path.unlink()
        self._keys.pop(tenant, None)

    def _make(self, path: Path) -> None:
        from cryptography.hazmat.primitives.keywrap import aes_key_wrap

        wrapped = aes_key_wrap(self._master(), secrets.token_bytes(32)).hex()
        _write_once(path, wrapped)

    def _unwrap(self, tenant: str, path: Path) -> bytes:
        from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

        try:
            return bytes(aes_key_unwrap(self._master(), bytes.fromhex(path.read_text())))
        except (InvalidUnwrap, ValueError):
            raise Failed(
                f"the key of tenant {tenant!r} does not open",
                why=f"{self.master_file} is not the master key that wrapped it",
                do="put the right master key back, or set master_key_file",
            ) from None

    def _master(self) -> bytes:
        if not self.master_file.exists():
            if self.folder.is_dir() and any(self.folder.iterdir()):
                raise Failed(
                    "the master key is gone", why=f"there is no {self.master_file}",
                    do="put it back from your backup, or set master_key_file",
                )  # fmt: skip
            _write_once(self.master_file, secrets.token_hex(32))
        if self.master_file.stat().st_mode & 0o077:
            raise BadInput(
                "others may read the master key", field="master_key_file", do=f"chmod 600 {self.master_file}"
            )
        try:
            key = bytes.fromhex(self.master_file.read_text().strip())
        except ValueError:
            key = b""
        if len(key) != 32:
            raise BadInput(
                "is not 64 hex digits", field="master_key_file", do="`openssl rand -hex 32` makes one"
            )
        return key


def _write_once(path: Path, text: str) -> None:
    """Writes a file that appears whole and durable, and never replaces one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    with contextlib.suppress(FileExistsError):  # another process was first: its key counts
        os.link(part, path)
    part.unlink()
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
