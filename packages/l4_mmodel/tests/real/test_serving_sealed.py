"""Sealed weights behind the real server: opened into memory, answered from, gone when it ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from l4_mmodel.api import Mmodel, Settings

openai = pytest.importorskip("openai")
pytest.importorskip("cryptography")
pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytestmark = pytest.mark.real


def test_sealed_models_answer_and_leave_nothing(tiny_llama: Path, tiny_adapter: Path, tmp_path: Path) -> None:
    mmodel = Mmodel(Settings(home=tmp_path, dtype="float32", threads=1, encrypt=True))
    versions = [mmodel.register(folder) for folder in (tiny_llama, tiny_adapter)]
    for version in versions:
        mmodel.deploy(version)
    opened = mmodel.blobs.plain.root
    with (
        mmodel.serve(port=0, wait_for=["tiny-llama", "tiny-lora"]) as server,
        openai.OpenAI(base_url=server.url, api_key=mmodel.keys.create("k").secret, max_retries=0) as client,
    ):
        answers = {
            name: client.completions.create(model=name, prompt="abc", max_tokens=8, temperature=0)
            .choices[0]
            .text
            for name in ("tiny-llama", "tiny-lora")
        }
        assert answers["tiny-llama"] != answers["tiny-lora"]
        assert len(list(opened.glob("*/*/*.safetensors"))) == 2
        mmodel.stop("tiny-llama")
        mmodel.stop("tiny-lora")
        end = time.monotonic() + 20
        while list(opened.glob("*/*/*.safetensors")) and time.monotonic() < end:
            time.sleep(0.1)
        assert list(opened.glob("*/*/*")) == [], "an ended runtime's files are not kept in memory"
    weights = (tiny_llama / "model.safetensors").read_bytes()[-4096:]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if weights in path.read_bytes()]
    mmodel.close()
