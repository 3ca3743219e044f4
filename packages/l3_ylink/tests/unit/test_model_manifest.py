"""Models as folders: files named by digest, pickles refused, bad GGUF input told before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
from l3_ylink._kit.problems import BadInput, Unavailable
from l3_ylink.documents import ModelManifest
from l3_ylink.models.gguf import find_in_package, import_gguf
from l3_ylink.models.manifest import read_model, write_manifest


def model(folder: Path) -> ModelManifest:
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_bytes(b"{}")
    (folder / ".hidden").write_bytes(b"not part of it")
    return write_manifest(
        folder,
        name="m",
        type="causal-lm",
        architecture="LlamaForCausalLM",
        parameters=1,
        dtype="float32",
        licence="MIT",
    )


def test_every_visible_file_is_named_and_the_manifest_reads_back(tmp_path: Path) -> None:
    manifest = model(tmp_path)
    assert [entry.uri for entry in manifest.files] == ["model.safetensors", "tokenizer.json"]
    assert manifest.tokenizer_digest == manifest.files[1].sha256
    assert read_model(tmp_path) == (tmp_path, manifest)
    assert read_model(tmp_path / "model-manifest.json") == (tmp_path, manifest)


@pytest.mark.parametrize(
    ("damage", "words"), [("remove", "is missing"), ("change", "SHA-256 differ"), ("cut", "size")]
)
def test_a_changed_file_is_named(tmp_path: Path, damage: str, words: str) -> None:
    model(tmp_path)
    file = tmp_path / "model.safetensors"
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(b"Weights" if damage == "change" else b"weight")
    with pytest.raises(BadInput, match=words) as refused:
        read_model(tmp_path)
    assert refused.value.field == "model.safetensors"


@pytest.mark.parametrize("name", ["pytorch_model.bin", "state.pt", "a.pkl", "old.ckpt"])
def test_a_pickle_among_the_files_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(BadInput, match="pickle"):
        model(tmp_path)
    assert not (tmp_path / "model-manifest.json").exists()


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no model-manifest\.json"):
        read_model(tmp_path)


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04 a zip"])
def test_what_is_no_gguf_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    with pytest.raises(BadInput, match="not a GGUF file"):
        import_gguf(file, tmp_path / "out", cache=tmp_path / "cache")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there_and_an_unknown_dtype_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        import_gguf(tmp_path / "none.gguf", tmp_path / "out", cache=tmp_path)
    with pytest.raises(BadInput, match="'int4' is unknown"):
        import_gguf(tmp_path / "none.gguf", tmp_path / "out", dtype="int4", cache=tmp_path)


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(Unavailable, match="no_such_package is not installed") as refused:
        find_in_package("no_such_package")
    assert "--no-deps no-such-package" in refused.value.do


def test_a_package_without_a_gguf_is_refused() -> None:
    with pytest.raises(BadInput, match="0 GGUF files"):
        find_in_package("yaml")
