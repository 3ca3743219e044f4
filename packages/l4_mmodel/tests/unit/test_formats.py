"""The allow-list: whatever its name, only safetensors, GGUF and plain companions come in."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel.api import BadInput
from l4_mmodel.security.formats import inspect, is_pickle, is_sentencepiece
from l4_mmodel.testing import safetensors


class Evil:
    """Calls os.system when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("true",)


def look(data: bytes, name: str) -> Any:
    return inspect(io.BytesIO(data), len(data), name)


def zipped(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/"), data)
    return stream.getvalue()


def tarred(data: bytes) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo("x.pkl")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


PICKLES = {protocol: pickle.dumps(Evil(), protocol) for protocol in range(6)}
MALICIOUS = {
    **{f"protocol {protocol}": data for protocol, data in PICKLES.items()},
    "broken at its end": PICKLES[2][:-1],
    "text protocol, call first": b"cos\nsystem\n(S'true'\ntR.",
    "text protocol, instance": b"(S'true'\nios\nsystem\n.",
    "broken member first": b"\x80\x02}q\x00.\xff" + PICKLES[2],
    "a harmless pickle": pickle.dumps({"a": 1}),
    "PyTorch's zip": zipped(archive__data__pkl=PICKLES[2], archive__version=b"3"),
    "zip in zip": zipped(inner=zipped(data__pkl=PICKLES[4])),
    "zip behind a line of JSON": b"{}\n" + zipped(data__pkl=PICKLES[2]),
    "zip cut in the middle": zipped(data__pkl=PICKLES[2])[:40],
    "gzip": gzip.compress(PICKLES[2]),
    "tar": tarred(PICKLES[2]),
    "7z": b"7z\xbc\xaf\x27\x1c" + bytes(64),
    "Keras HDF5": b"\x89HDF\r\n\x1a\n" + bytes(64),
    "NumPy": b"\x93NUMPY\x01\x00" + bytes(64),
    "program": b"\x7fELF" + bytes(64),
    "script": b"#!/bin/sh\ntrue\n",
    "Python": b"import os\nos.system('true')\n",
    "nothing known": b"\x00\x01\x02\x03" * 20,
    "empty": b"",
}
NAMES = ["model.safetensors", "model.gguf", "pytorch_model.bin", "config.json", "weights", "tokenizer.model"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", MALICIOUS)
def test_refused_under_every_name(kind: str, name: str) -> None:
    with pytest.raises(BadInput, match=r"refused|is not JSON|broken safetensors"):
        look(MALICIOUS[kind], name)


@pytest.mark.parametrize("name", ["README.md", "merges.txt", "LICENSE", "chat_template.jinja"])
@pytest.mark.parametrize("kind", [kind for kind in MALICIOUS if kind not in ("Python", "empty")])
def test_refused_as_text(kind: str, name: str) -> None:
    with pytest.raises(BadInput, match="refused"):
        look(MALICIOUS[kind], name)


def test_the_message_says_what_it_is_and_what_to_do() -> None:
    with pytest.raises(BadInput) as caught:
        look(MALICIOUS["PyTorch's zip"], "model.safetensors")
    assert "zip archive with a Python pickle (archive/data/pkl)" in caught.value.what
    assert "safe_serialization" in caught.value.do


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("config.json", b'{"model_type": "llama"}'),
        ("tokenizer.json", json.dumps({"vocab": {"\u4e2d": 1}}, ensure_ascii=False).encode()),
        ("special_tokens_map.json", b"{}"),
        ("merges.txt", b"#version: 0.2\na b\nc d\n"),
        ("README.md", "# Model\n\n中文说明 (see I.)\n".encode()),
        ("LICENSE", b"Apache License\nVersion 2.0\n"),
        ("chat_template.jinja", b"{% for m in messages %}{{ m['content'] }}{% endfor %}"),
        ("NOTICE", b"."),
        ("data.jsonl", b'{"a": 1}\n{"a": 2}\n'),
        ("vocab.txt", b"[PAD]\n.\n(\nc\n"),
    ],
)
def test_companions_come_in(name: str, data: bytes) -> None:
    assert look(data, name) is None


def test_a_sentencepiece_vocabulary_comes_in() -> None:
    piece = b"\x0a\x05<unk>\x15\x00\x00\x00\x00"
    model = b"".join(b"\x0a" + bytes([len(piece)]) + piece for _ in range(3)) + b"\x12\x02\x08\x01"
    assert is_sentencepiece(model)
    assert look(model, "tokenizer.model") is None


def test_safetensors_tells_its_tensors() -> None:
    found = look(safetensors({"a": bytes(10), "b": bytes(6)}, format="pt"), "any name")
    assert (found.format, found.tensors, found.parameters, found.metadata) == (
        "safetensors",
        2,
        16,
        {"format": "pt"},
    )


def test_the_library_agrees_that_ours_is_safetensors() -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    import numpy as np

    data = numpy.save({"x": np.arange(6, dtype=np.float32).reshape(2, 3), "e": np.zeros((0, 4), np.int8)})
    assert look(data, "x").parameters == 6


GOOD = safetensors({"a": bytes(range(32)), "b": bytes(16)})


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (GOOD + b"\x00", "no tensor's"),
        (GOOD + PICKLES[2], "no tensor's"),
        (GOOD + zipped(data__pkl=PICKLES[2]), "no tensor's"),
        (GOOD[:-1], "no tensor's"),
        (GOOD.replace(b'"shape": [32]', b'"shape": [31]'), "disagree"),
        (GOOD.replace(b'"data_offsets": [32, 48]', b'"data_offsets": [31, 47]'), "gap"),
        (GOOD.replace(b'"b"', b'"a"'), "twice"),
        (GOOD.replace(b'"U8", "shape": [16]', b'"Q8", "shape": [16]'), "known dtype"),
    ],
)
def test_a_safetensors_file_must_account_for_every_byte(data: bytes, fault: str) -> None:
    with pytest.raises(BadInput, match=fault):
        look(data, "model.safetensors")


def gguf(tensor_bytes: int = 128, tail: bytes = b"", version: int = 3) -> bytes:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    head = b"GGUF" + struct.pack("<IQQ", version, 1, 2)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    head += text("w") + struct.pack("<IQIQ", 1, 32, 0, 0)
    return head + bytes(-len(head) % 32) + bytes(tensor_bytes) + tail


def test_gguf_comes_in() -> None:
    found = look(gguf(), "model")
    assert (found.format, found.parameters, found.metadata) == ("gguf", 32, {"general.architecture": "llama"})


@pytest.mark.parametrize(
    "data",
    [
        gguf(127),
        gguf(tail=bytes(32)),
        gguf(tail=PICKLES[2]),
        gguf(version=9),
        gguf()[:60],
        b"GGUF" + b"\xff" * 60,
    ],
)
def test_a_broken_gguf_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="broken GGUF"):
        look(data, "model.gguf")


def test_the_package_of_llama_cpp_agrees(smollm2_gguf: Any) -> None:
    with open(smollm2_gguf, "rb") as stream:
        found = inspect(stream, smollm2_gguf.stat().st_size, "x")
    assert found is not None
    assert found.parameters == 134_515_008  # as its model card says: 135M


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail_otherwise(data: bytes) -> None:
    for name in ("model.safetensors", "config.json", "README.md"):
        try:
            look(data, name)
        except BadInput:
            continue


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_no_json_is_mistaken_for_a_pickle(value: Any) -> None:
    assert not is_pickle(json.dumps(value).encode())


@given(st.integers(0, 5), st.integers(0, 60), st.binary(min_size=1, max_size=4))
def test_a_pickle_in_front_of_anything_is_refused(protocol: int, at: int, noise: bytes) -> None:
    data = bytearray(PICKLES[protocol] + bytes(at))
    data[len(PICKLES[protocol]) :] = noise
    with pytest.raises(BadInput):
        look(bytes(data), "model.safetensors")
