"""Importing models that have no manifest: folders, other hubs, file systems; broken off and gone on."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from l4_mmodel._kit.problems import BadInput, Failed, NotFound, Unavailable
from l4_mmodel.api import Mmodel
from l4_mmodel.registry.importing.downloads import RemoteFile, download
from l4_mmodel.testing import safetensors

CARD = b"---\nlicense: apache-2.0\nlanguage: zh\n---\n# A model\n"
CONFIG = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "float32"}


def write(folder: Path, **files: bytes) -> Path:
    """A folder in the layout of Hugging Face; a name's `__` stands for a dot."""
    folder.mkdir(parents=True)
    start = {
        "config__json": json.dumps(CONFIG).encode(), "README__md": CARD,
        "model__safetensors": safetensors({"w": b"12345678"}),
    }  # fmt: skip
    for name, data in {**start, **files}.items():
        if data:
            (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def test_a_folder_is_described_from_its_own_files(mmodel: Mmodel, tmp_path: Path) -> None:
    folder = write(tmp_path / "tiny", pytorch_model__bin=b"\x80\x04N.", tokenizer__json=b"{}")
    version, left_out = mmodel.import_model(str(folder), alias="production", tags={"lang": "zh"})
    assert (version.name, version.type, version.architecture) == ("tiny", "causal-lm", "LlamaForCausalLM")
    assert (version.licence, version.manifest["dtype"], version.parameters) == ("apache-2.0", "float32", 8)
    assert set(version.files) == {"config.json", "README.md", "model.safetensors", "tokenizer.json"}
    assert list(left_out) == ["pytorch_model.bin"]
    assert "pickle" in left_out["pytorch_model.bin"]
    assert version.tags == {"lang": "zh", "source": "tiny"}
    assert not (folder / "model-manifest.json").exists(), "the source is only read"
    assert mmodel.import_model(str(folder))[0].ref == "tiny@1", "the same again is the same version"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"config__json": b'{"architectures": ["XLMRobertaForSequenceClassification"]}'}, "reranker"),
        ({"config__json": b'{"architectures": ["BertModel"]}', "modules__json": b"[]"}, "embedding"),
        ({"config__json": b'{"architectures": ["BertModel"]}'}, "embedding"),
        ({"config__json": b'{"architectures": ["GPT2LMHeadModel"]}'}, "causal-lm"),
    ],
)
def test_its_type_is_found_out(mmodel: Mmodel, tmp_path: Path, files: dict[str, bytes], kind: str) -> None:
    version, _ = mmodel.import_model(str(write(tmp_path / "some", **files)))
    assert version.type == kind


@pytest.mark.parametrize(
    ("files", "field", "words"),
    [
        ({"README__md": b""}, "licence", "told nowhere"),
        ({"model__safetensors": b"", "pytorch_model__bin": b"\x80\x04N."}, None, "no weights"),
        ({"adapter_config__json": b'{"base_model_name_or_path": "big"}'}, "base", "is an adapter on big"),
        ({"config__json": b"{"}, None, "no weights|is not JSON"),
        ({"model__safetensors": b"\x10\0\0\0\0\0\0\0{"}, "model.safetensors", "broken safetensors"),
    ],
)
def test_what_cannot_be_told_is_asked_for(
    mmodel: Mmodel, tmp_path: Path, files: dict[str, bytes], field: str | None, words: str
) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        mmodel.import_model(str(write(tmp_path / "some", **files)))
    assert field is None or caught.value.field == field
    assert mmodel.registry.all(mmodel.tenant) == []


def test_an_adapter_pins_the_base_that_is_named(mmodel: Mmodel, tmp_path: Path) -> None:
    base, _ = mmodel.import_model(str(write(tmp_path / "base")))
    adapter = write(tmp_path / "lora", adapter_config__json=b"{}", config__json=b"")
    version, _ = mmodel.import_model(str(adapter), base="base@1")
    assert version.type == "adapter"
    assert version.base_digest == base.digest


class Hub(http.server.ThreadingHTTPServer):
    """The three calls of a hub that serves one repository; `cut` ends the first download early."""

    def __init__(self, folder: Path, *, cut: int | None = None, flip: bool = False) -> None:
        self.folder, self.cut, self.flip = folder, cut, flip
        self.asked: list[tuple[str, str | None]] = []
        super().__init__(("127.0.0.1", 0), functools.partial(Answer))


class Answer(http.server.BaseHTTPRequestHandler):
    """What the Hub's protocol says; see huggingface_hub's own requests."""

    server: Hub

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        path, wanted = self.path.partition("?")[0], self.headers.get("range")
        self.server.asked.append((path, wanted))
        if path == "/api/models/org/tiny/revision/main":
            self.answer(json.dumps({"sha": "c" * 40}).encode())
        elif path == f"/api/models/org/tiny/tree/{'c' * 40}":
            self.answer(
                json.dumps([self.row(file) for file in sorted(self.server.folder.iterdir())]).encode()
            )
        elif path.startswith(f"/org/tiny/resolve/{'c' * 40}/"):
            self.file((self.server.folder / path.rpartition("/")[2]).read_bytes(), wanted)
        else:
            self.send_error(404)

    def row(self, file: Path) -> dict[str, Any]:
        data = file.read_bytes()
        git = hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()
        row: dict[str, Any] = {"type": "file", "path": file.name, "size": len(data), "oid": git}
        if file.suffix == ".safetensors":
            row["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}
        return row

    def file(self, data: bytes, wanted: str | None) -> None:
        if self.server.flip:
            data = data[:-1] + bytes([data[-1] ^ 1])
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if self.server.cut is not None and len(data) > self.server.cut:
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: self.server.cut])
            self.server.cut = None
            self.close_connection = True
            return
        self.answer(data[start:], 206 if wanted else 200)

    def answer(self, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    hubs: list[Hub] = []

    def start(folder: Path, **options: Any) -> Hub:
        hub = Hub(folder, **options)
        hubs.append(hub)
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
        return hub

    yield start
    for hub in hubs:
        hub.shutdown()
        hub.server_close()


def test_a_hubs_model_comes_with_its_commit(mmodel: Mmodel, tmp_path: Path, serve: Any) -> None:
    hub = serve(write(tmp_path / "tiny", pytorch_model__bin=b"\x80\x04N."))
    version, left_out = mmodel.import_model("hf://org/tiny")
    assert version.manifest["version"] == "c" * 40
    assert version.tags["source"] == f"hf://org/tiny@{'c' * 40}"
    assert list(left_out) == ["pytorch_model.bin"]
    assert not any(path.endswith(".bin") for path, _ in hub.asked), "it is not even fetched"
    assert list((mmodel.settings.state_dir / "imports").glob("*/*")) == []


def test_a_download_that_broke_off_goes_on(mmodel: Mmodel, tmp_path: Path, serve: Any) -> None:
    weights = safetensors({"w": bytes(range(256)) * 4000})
    hub = serve(write(tmp_path / "tiny", model__safetensors=weights), cut=300_000)
    with pytest.raises((Unavailable, Failed)):
        mmodel.import_model("hf://org/tiny")
    assert mmodel.registry.all(mmodel.tenant) == []
    version, _ = mmodel.import_model("hf://org/tiny")
    assert version.files["model.safetensors"] == f"sha256:{hashlib.sha256(weights).hexdigest()}"
    ranges = [wanted for path, wanted in hub.asked if path.endswith(".safetensors") and wanted]
    assert ranges == ["bytes=300000-"]


def test_a_byte_flipped_on_the_way_is_found(mmodel: Mmodel, tmp_path: Path, serve: Any) -> None:
    hub = serve(write(tmp_path / "tiny"), flip=True)
    with pytest.raises(Failed, match="damaged on the way"):
        mmodel.import_model("hf://org/tiny")
    hub.flip = False
    assert mmodel.import_model("hf://org/tiny")[0].ref == "tiny@1", "the damaged file is fetched anew"


def test_what_is_not_there_is_told(mmodel: Mmodel, tmp_path: Path, serve: Any) -> None:
    serve(write(tmp_path / "tiny"))
    with pytest.raises(NotFound, match="no org/other"):
        mmodel.import_model("hf://org/other")
    with pytest.raises(BadInput, match="no such folder"):
        mmodel.import_model("nowhere")


def test_any_file_system_of_fsspec_is_a_source(mmodel: Mmodel, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
    write(tmp_path / "tiny")
    system = fsspec.filesystem("memory")
    system.put(str(tmp_path / "tiny"), "/models/tiny", recursive=True)
    version, _ = mmodel.import_model("memory://models/tiny")
    assert (version.ref, version.licence) == ("tiny@1", "apache-2.0")
    with pytest.raises(NotFound, match="nothing lies at"):
        mmodel.import_model("memory://models/none")
    with pytest.raises(BadInput, match="cannot be read"):
        mmodel.import_model("nosuch://models/none")


def test_a_shorter_download_is_kept_and_a_longer_one_is_not(tmp_path: Path) -> None:
    def only(data: bytes) -> Any:
        return lambda offset: iter([data[offset:]])

    file = RemoteFile("w", 4)
    with pytest.raises(Failed, match="has 2 bytes"):
        download(file, tmp_path / "w", only(b"ab"), lambda _: None)
    assert (tmp_path / ".w.part").read_bytes() == b"ab"
    download(file, tmp_path / "w", only(b"abcd"), lambda _: None)
    assert (tmp_path / "w").read_bytes() == b"abcd"
    with pytest.raises(Failed, match="has 5 bytes"):
        download(file, tmp_path / "longer", only(b"abcde"), lambda _: None)
    assert not (tmp_path / ".longer.part").exists()
