"""Signatures of versions, in the OpenSSF Model Signing format, by keys that the registry never keeps.

A signature covers every file of a version by its SHA-256 (a Sigstore bundle with an in-toto statement),
so other tools verify a downloaded folder as well.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, select

from l4_mmodel._kit.problems import BadInput, Failed, NotFound, Unavailable
from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

from .blobs import Blobs
from .versions import Version


class Signatures:
    """The signatures of one registry."""

    def __init__(self, store: Store, blobs: Blobs) -> None:
        self.store = store
        self.blobs = blobs

    def sign(self, version: Version, key: Path, *, by: str, password: str | None = None) -> str:
        """Signs a version with an elliptic-curve private key (PEM); returns the signer's fingerprint."""
        signing = _library("signing")
        signer = fingerprint(key, password)
        folder = self.blobs.checked_view(version.tenant, version.digest, version.files)
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "model.sig"
            secret = password.encode() if password else None  # bytes, whatever its annotation says
            config = signing.Config().use_elliptic_key_signer(private_key=key, password=secret)
            config.sign(folder, path)
            bundle = path.read_text("utf-8")
        row = {
            "version_id": version.id, "signer": signer, "bundle": bundle,
            "created_at": self.store.clock(), "created_by": by,
        }  # fmt: skip
        table = tables.signatures
        with self.store.change() as connection:
            again = (table.c.version_id == version.id) & (table.c.signer == signer)
            connection.execute(delete(table).where(again))
            connection.execute(insert(table), row)
            self.store.audit(
                connection, tenant=version.tenant, by=by, action="sign", target=version.ref, signer=signer
            )
        return signer

    def of(self, version: Version) -> list[dict[str, Any]]:
        """The signatures of a version, the newest first."""
        table = tables.signatures
        query = select(table).where(table.c.version_id == version.id).order_by(table.c.id.desc())
        with self.store.read() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def check(self, version: Version, keys: Sequence[Path]) -> str:
        """The fingerprint of one of `keys` (public, PEM) that has signed the version as it is stored.

        `Failed` where none has, or where a signature is not of these files.
        """
        _library("verifying")
        known = {fingerprint(key): key for key in keys}
        signed = {row["signer"]: row["bundle"] for row in self.of(version)}
        for signer in known.keys() & signed.keys():
            with self._as_file(signed[signer]) as path:
                self._verify(version, known[signer], path)
            return signer
        raise Failed(
            f"{version.ref} is not signed by a trusted key",
            why=f"it has {len(signed)} signatures, trusted are {len(known)} keys",
            do=f"mmodel sign {version.ref} --key FILE",
        )

    def _verify(self, version: Version, key: Path, signature: Path) -> None:
        folder = self.blobs.checked_view(version.tenant, version.digest, version.files)
        verifying = _library("verifying")
        try:
            verifying.Config().use_elliptic_key_verifier(public_key=key).verify(folder, signature)
        except Exception as error:  # the library raises several kinds for a wrong signature
            raise Failed(
                f"{version.ref}: its signature is not of its files", why=str(error)[:500],
                do="sign it again, or register it again from its source",
            ) from error  # fmt: skip

    @contextmanager
    def _as_file(self, bundle: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "model.sig"
            path.write_text(bundle, "utf-8")
            yield path


def trusted_in(folder: Path) -> list[Path]:
    """The public keys of a folder; `NotFound` where there is none, so that a typing error trusts nobody."""
    keys = sorted(folder.glob("*.pem")) + sorted(folder.glob("*.pub"))
    if not keys:
        raise NotFound(f"no public key (*.pem, *.pub) lies in {folder}", do="check trusted_keys_dir")
    return keys


def fingerprint(key: Path, password: str | None = None) -> str:
    """SHA-256 over the DER form of a key's public half; reads private and public PEM files."""
    _library("signing")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        data = key.read_bytes()
    except OSError as error:
        raise BadInput("cannot be read", field=str(key), why=str(error.strerror)) from error
    try:
        if b"PRIVATE KEY" in data:
            secret = serialization.load_pem_private_key(data, password.encode() if password else None)
            public: Any = secret.public_key()
        else:
            public = serialization.load_pem_public_key(data)
    except (ValueError, TypeError) as error:
        raise BadInput("is no PEM key that opens", field=str(key), why=str(error)[:200]) from error
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise BadInput(
            "is no elliptic-curve key", field=str(key), do="openssl ecparam -name prime256v1 -genkey -noout"
        )
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(public.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"model_signing.{name}")
    except ModuleNotFoundError as error:
        raise Unavailable("signatures need the library model-signing",
                          do="pip install 'l4-mmodel[signing]'") from error  # fmt: skip
