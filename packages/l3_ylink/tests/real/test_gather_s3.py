"""Sources on S3, by a server that speaks it: the data set is that of the same files in a folder."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("default::ResourceWarning"),  # s3fs leaves its sockets to the collector
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]
OWN = Path.home() / ".cache/ogai/bench/moto/bin/moto_server"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = shutil.which("moto_server") or (str(OWN) if OWN.exists() else None)
    if server is None or importlib.util.find_spec("s3fs") is None:
        pytest.skip("needs moto_server and s3fs: pip install 'moto[server,s3]' 'l3-ylink[remote]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    words = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
    }
    for name, value in words.items():
        monkeypatch.setenv(name, value)
    with subprocess.Popen(
        [server, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL, env=os.environ
    ) as process:
        try:
            for _ in range(200):
                try:
                    httpx.get(url, timeout=5)
                    break
                except httpx.HTTPError:
                    time.sleep(0.1)
            httpx.put(f"{url}/lake", timeout=10).raise_for_status()
            yield f"{url}/lake"
        finally:
            process.kill()


def test_a_source_on_s3_gives_the_data_set_of_the_same_files_in_a_folder(bucket: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    rows = [
        json.dumps({"text": f"Row {number} says that the tide comes in twice a day."}) for number in range(40)
    ]
    files = {
        "a/rows.jsonl": "\n".join(rows).encode(),
        "a/more.jsonl.gz": gzip.compress("\n".join(rows[:7]).encode()),
        "b/poem.txt": "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。".encode("gb18030"),
        "b/table.csv": b"id,text\n1,The moon pulls the sea towards it.\n",
    }
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        httpx.put(f"{bucket}/corpus/{name}", content=data, timeout=10).raise_for_status()
    (tmp_path / "none").mkdir()

    def texts(place: str | None, source: Path, workers: int) -> list[str]:
        recipe = parse_recipe(
            {
                "name": "x",
                "sources": [{"name": "s", "licence": "CC0-1.0", **({"at": place} if place else {})}],
                "steps": [{"step": "extract"}, {"step": "clean"}],
                "text_formats": ["jsonl"],
            }
        )
        out = tmp_path / f"out-{workers}-{bool(place)}"
        done = run_recipe(recipe, input_folder=source, out=out, workers=workers, block_bytes=1_000)
        assert done.manifest.rows == 49
        parts = sorted((out / "text").rglob("*.jsonl"))
        return [json.loads(line)["text"] for part in parts for line in part.read_text("utf-8").splitlines()]

    here = texts(None, folder, 1)
    assert texts("s3://lake/corpus", tmp_path / "none", 1) == here
    assert texts("s3://lake/corpus/", tmp_path / "none", 2) == here
