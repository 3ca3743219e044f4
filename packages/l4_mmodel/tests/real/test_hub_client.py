"""The Hugging Face Hub's own client reads models from this registry."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from l4_mmodel._kit.problems import Failed
from l4_mmodel._kit.tokens import TokenStore
from l4_mmodel.api import Mmodel
from l4_mmodel.registry.checking import check_folder
from l4_mmodel.serving.server import Server

pytestmark = pytest.mark.real
ModelMaker = Callable[..., Path]
WEIGHTS = bytes(range(256)) * 8192


@pytest.fixture
def client(mmodel: Mmodel, make_model: ModelMaker, tmp_path: Path) -> Iterator[Any]:
    """Runs a line of Python with the client pointed to our server, as tenant red; two models are there."""
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    mmodel.of("red", "ann").register(make_model(weights=WEIGHTS, name="m"), alias="production")
    mmodel.of("red", "ann").register(make_model(weights=WEIGHTS[::-1], name="m"))
    mmodel.of("blue", "bob").register(make_model(weights=WEIGHTS, name="theirs"))
    token = TokenStore(mmodel.settings.tokens_file).create("red", "red")
    with Server.start(mmodel, port=0, wait_for=[], timeout_s=60) as server:

        def run(code: str) -> subprocess.CompletedProcess[str]:
            environment = {
                **os.environ, "HF_ENDPOINT": f"{server.console_url}/hub", "HF_TOKEN": token,
                "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1",
            }  # fmt: skip
            lines = f"import huggingface_hub as hub\nhere = {str(tmp_path / 'here')!r}\n{code}"
            return subprocess.run(
                [sys.executable, "-c", lines], env=environment, text=True, capture_output=True, timeout=120
            )

        yield run


def test_a_download_is_whole_and_a_flipped_byte_is_found(client: Any, mmodel: Mmodel, tmp_path: Path) -> None:
    done = client("print(hub.snapshot_download('m', revision='production', local_dir=here))")
    assert done.returncode == 0, done.stderr
    version = mmodel.of("red", "ann").version("m@1")
    assert check_folder(tmp_path / "here", digest=version.digest) == version.digest
    weights = tmp_path / "here" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-5] ^= 1
    weights.write_bytes(data)
    again = client("print(hub.snapshot_download('m', revision='production', local_dir=here))")
    assert again.returncode == 0, "the client itself does not notice"
    with pytest.raises(Failed, match="1 of 2 files"):
        check_folder(tmp_path / "here", digest=version.digest)


def test_a_cache_of_links_is_checked_too(client: Any) -> None:
    done = client("print(hub.snapshot_download('red/m'))")
    assert done.returncode == 0, done.stderr
    check_folder(Path(done.stdout.splitlines()[-1]))


def test_info_names_files_and_revisions(client: Any, mmodel: Mmodel) -> None:
    done = client(
        "info = hub.model_info('m', revision='1', files_metadata=True)\n"
        "print(info.sha, sorted((f.rfilename, f.size) for f in info.siblings))\n"
        "print(sorted(f.path for f in hub.HfApi().list_repo_tree('m', recursive=True)))\n"
        "print(hub.whoami()['name'], hub.file_exists('m', 'config.json'), hub.file_exists('m', 'no.json'))\n"
        "print(hub.hf_hub_download('m', 'config.json', revision=info.sha))"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(mmodel.of("red", "ann").version("m@1").digest[7:47])
    assert "('config.json', 2)" in lines[0]
    assert lines[1] == "['config.json', 'model-manifest.json', 'model.safetensors']"
    assert lines[2] == "red True False"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("hub.model_info('theirs')", "RepositoryNotFoundError"),
        ("hub.model_info('blue/theirs')", "RepositoryNotFoundError"),
        ("hub.hf_hub_download('m', 'config.json', revision='nine')", "RevisionNotFoundError"),
        ("hub.hf_hub_download('m', 'none.bin')", "EntryNotFoundError"),
        ("hub.model_info('m', token='wrong')", "401"),
    ],
)
def test_refusals_are_the_clients_own_errors(client: Any, call: str, error: str) -> None:
    done = client(call)
    assert done.returncode != 0
    assert error in done.stderr


def test_a_download_goes_on_where_it_stopped(client: Any) -> None:
    half = len(WEIGHTS) // 2
    done = client(
        "import httpx, os\n"
        "head = {'authorization': 'Bearer ' + os.environ['HF_TOKEN']}\n"
        "url = hub.hf_hub_url('m', 'model.safetensors')\n"
        f"a = httpx.get(url, headers=head | {{'range': 'bytes=0-{half - 1}'}})\n"
        f"b = httpx.get(url, headers=head | {{'range': 'bytes={half}-'}})\n"
        "whole = httpx.get(url, headers=head)\n"
        "print(a.status_code, b.status_code, a.content + b.content == whole.content, whole.headers['etag'])"
    )
    assert done.stdout.startswith("206 206 True"), done.stderr
