"""Signed versions: what was signed is what is run, and other tools agree."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from l4_mmodel._kit.problems import BadInput, Failed, NotFound
from l4_mmodel.api import Mmodel
from l4_mmodel.registry.signatures import fingerprint

pytest.importorskip("model_signing", reason="needs model-signing")
ModelMaker = Callable[..., Path]


def key_pair(folder: Path, name: str, *, password: bytes | None = None) -> tuple[Path, Path]:
    """A private and a public key, PEM."""
    from cryptography.hazmat.primitives import serialization as ser
    from cryptography.hazmat.primitives.asymmetric import ec

    folder.mkdir(exist_ok=True)
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    secret = ec.generate_private_key(ec.SECP256R1())
    sealed = ser.BestAvailableEncryption(password) if password else ser.NoEncryption()
    private.write_bytes(secret.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, sealed))
    form = ser.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(secret.public_key().public_bytes(ser.Encoding.PEM, form))
    return private, public


def test_a_signature_names_its_key_and_covers_the_files(
    mmodel: Mmodel, make_model: ModelMaker, tmp_path: Path
) -> None:
    private, public = key_pair(tmp_path / "keys", "ann")
    _, stranger = key_pair(tmp_path / "keys", "eve")
    version = mmodel.register(make_model())
    with pytest.raises(Failed, match="not signed by a trusted key"):
        mmodel.signatures.check(version, [public])
    signer = mmodel.sign("tiny", private)
    assert signer == fingerprint(public) == fingerprint(private)
    assert mmodel.signatures.check(version, [stranger, public]) == signer
    with pytest.raises(Failed, match="not signed by a trusted key"):
        mmodel.signatures.check(version, [stranger])
    assert mmodel.sign("tiny", private) == signer
    assert len(mmodel.signatures.of(version)) == 1, "signed again by the same key replaces"


def test_a_signature_moved_to_another_version_is_refused(
    mmodel: Mmodel, make_model: ModelMaker, tmp_path: Path
) -> None:
    from l4_mmodel.store import tables

    private, public = key_pair(tmp_path / "keys", "ann")
    mmodel.register(make_model())
    other = mmodel.register(make_model(weights=b"other"))
    mmodel.sign("tiny@1", private)
    with mmodel.store.change() as connection:
        connection.execute(tables.signatures.update().values(version_id=other.id))
    with pytest.raises(Failed, match="not of its files"):
        mmodel.signatures.check(other, [public])


def test_only_signed_versions_run_where_keys_are_trusted(
    mmodel: Mmodel, make_model: ModelMaker, tmp_path: Path
) -> None:
    private, public = key_pair(tmp_path / "keys", "ann")
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    version = mmodel.register(make_model())
    strict = Mmodel(mmodel.settings.model_copy(update={"trusted_keys_dir": trusted}))
    with pytest.raises(NotFound, match="no public key"):
        strict.plan(version, "tiny")
    (trusted / "ann.pub").write_bytes(public.read_bytes())
    with pytest.raises(Failed, match="not signed"):
        strict.plan(version, "tiny")
    strict.sign(version, private)
    assert strict.plan(version, "tiny").spec is not None
    strict.close()


def test_the_reference_tool_verifies_it(mmodel: Mmodel, make_model: ModelMaker, tmp_path: Path) -> None:
    private, public = key_pair(tmp_path / "keys", "ann", password=b"open sesame")
    version = mmodel.register(make_model())
    mmodel.sign(version, private, password="open sesame")
    signature = tmp_path / "model.sig"
    signature.write_text(mmodel.signatures.of(version)[0]["bundle"])
    folder = mmodel.blobs.view(version.tenant, version.digest, version.files)
    command = [sys.executable, "-m", "model_signing", "verify", "key", str(folder)]
    command += ["--signature", str(signature), "--public_key", str(public)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_keys_that_are_none_are_named(mmodel: Mmodel, make_model: ModelMaker, tmp_path: Path) -> None:
    mmodel.register(make_model())
    private, _ = key_pair(tmp_path / "keys", "ann", password=b"x" * 8)
    rsa = tmp_path / "rsa.key"
    from cryptography.hazmat.primitives import serialization as ser
    from cryptography.hazmat.primitives.asymmetric import rsa as rsa_keys

    made = rsa_keys.generate_private_key(65537, 2048)
    rsa.write_bytes(made.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption()))
    (tmp_path / "text.key").write_text("hello")
    for key, words in (
        (tmp_path / "none.key", "cannot be read"), (tmp_path / "text.key", "no PEM key"),
        (private, "no PEM key that opens"), (rsa, "no elliptic-curve key"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=words):
            mmodel.sign("tiny", key)
