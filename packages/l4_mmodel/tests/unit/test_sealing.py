"""Sealed files: what goes in comes out from any position, and any change is noticed."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel._kit.problems import Failed

pytest.importorskip("cryptography", reason="needs cryptography")

from l4_mmodel.security import sealing
from l4_mmodel.security.sealing import CHUNK_BITS, HEADER, TAG, SealedReader, SealedWriter, derive

KEY = bytes(range(32))
CHUNK = 1 << CHUNK_BITS


def sealed(data: bytes, *, pieces: int = 1, key: bytes = KEY, salt: bytes | None = None) -> bytes:
    """`data` as a sealed file, written in some pieces."""
    target = io.BytesIO()
    writer = SealedWriter(target, key, salt=salt)
    step = max(1, -(-len(data) // pieces))
    for start in range(0, len(data), step):
        writer.write(data[start : start + step])
    writer.finish()
    return target.getvalue()


def opened(data: bytes, key: bytes = KEY) -> bytes:
    return io.BufferedReader(SealedReader(io.BytesIO(data), key)).read()


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 5])
@pytest.mark.parametrize("pieces", [1, 3])
def test_what_is_sealed_is_read_again(size: int, pieces: int) -> None:
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    body = sealed(data, pieces=pieces)
    assert opened(body) == data
    assert len(body) == HEADER + size + TAG * max(1, -(-size // CHUNK))
    assert size < 16 or data[:16] not in body


def test_it_is_aes_gcm_under_a_derived_key() -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    body = sealed(b"plain", salt=b"s" * 16)
    cipher = AESGCM(derive(KEY, b"s" * 16))
    assert cipher.decrypt(bytes(11) + b"\x01", body[HEADER:], body[:HEADER]) == b"plain"


@given(st.binary(min_size=0, max_size=400), st.integers(0, 500), st.integers(0, 500))
def test_any_position_can_be_read(data: bytes, start: int, count: int) -> None:
    patched = pytest.MonkeyPatch()
    with patched.context() as patch:
        patch.setattr(sealing, "CHUNK_BITS", 4)
        reader = io.BufferedReader(SealedReader(io.BytesIO(sealed(data, pieces=3)), KEY), 7)
        assert reader.seek(0, io.SEEK_END) == len(data)
        reader.seek(start)
        assert reader.read(count) == data[start : start + count]


@given(st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject) -> None:
    body = bytearray(sealed(b"some weights that matter"))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Failed):
        opened(bytes(body))


@pytest.mark.parametrize("cut", ["last chunk", "half a chunk", "all but the header", "swapped"])
def test_a_cut_or_shuffled_file_is_noticed(cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "CHUNK_BITS", 4)
    body = sealed(bytes(range(64)))
    size = 16 + TAG
    changed = {
        "last chunk": body[:-size],
        "half a chunk": body[:-10],
        "all but the header": body[:HEADER],
        "swapped": body[:HEADER] + body[HEADER + size : HEADER + 2 * size] + body[HEADER : HEADER + size]
        + body[HEADER + 2 * size :],
    }[cut]  # fmt: skip
    with pytest.raises(Failed, match="changed"):
        opened(changed)


def test_another_key_does_not_open_it() -> None:
    with pytest.raises(Failed, match="another tenant's"):
        opened(sealed(b"secret"), key=bytes(32))
    with pytest.raises(Failed, match="no sealed file"):
        opened(b"GGUF" + bytes(60))


def test_equal_files_look_unlike() -> None:
    assert sealed(b"same") != sealed(b"same")
