"""CPU of the gateway for a request and for a streamed chunk, keys, limits, ledger and metrics on.

Ours and its peers stand before the same canned upstream, asked by the same client at 8 connections, one
after the other in one run.  CPU time is the process's own, from /proc.  Peers: a plain FastAPI + httpx
proxy of this environment, and LiteLLM in an environment of its own (left out with OGAI_BENCH_SMALL=1).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp
from l4_mmodel.api import Mmodel, Settings
from l4_mmodel.testing import safetensors, write_manifest

CONNECTIONS, CHUNKS = 8, 64
BODY = {"model": "bench", "messages": [{"role": "user", "content": "x" * 100}], "max_tokens": 64}
TICK = os.sysconf("SC_CLK_TCK")
CACHE = Path.home() / ".cache" / "ogai" / "bench"

UPSTREAM = """
import json, sys
USAGE = {"prompt_tokens": 30, "completion_tokens": 64, "total_tokens": 94}
HEAD = {"id": "x", "created": 1, "model": "bench"}
MESSAGE = {"index": 0, "message": {"role": "assistant", "content": "y" * 200}, "finish_reason": "stop"}
WHOLE = json.dumps({**HEAD, "object": "chat.completion", "choices": [MESSAGE], "usage": USAGE}).encode()
def event(choices, **more):
    value = {**HEAD, "object": "chat.completion.chunk", "choices": choices, **more}
    return b"data: " + json.dumps(value).encode() + b"\\n\\n"
DELTA = event([{"index": 0, "delta": {"content": "word "}, "finish_reason": None}])
LAST = event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
LAST += event([], usage=USAGE) + b"data: [DONE]\\n\\n"
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    stream = b'"stream":true' in body.replace(b" ", b"")
    kind = b"text/event-stream" if stream else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    if not stream:
        await send({"type": "http.response.body", "body": WHOLE})
        return
    import asyncio
    for _ in range(CHUNKS):
        await send({"type": "http.response.body", "body": DELTA, "more_body": True})
        await asyncio.sleep(0.001)
    await send({"type": "http.response.body", "body": LAST})
""".replace("CHUNKS", str(CHUNKS))

PLAIN = """
import os, httpx
from fastapi import FastAPI, Header, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
class Message(BaseModel):
    role: str
    content: str
class Body(BaseModel):
    model: str
    messages: list[Message]
    max_tokens: int | None = None
    stream: bool = False
app = FastAPI()
client = httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=100))
URL = os.environ["UPSTREAM"] + "/v1/chat/completions"
@app.post("/v1/chat/completions")
async def chat(body: Body, authorization: str = Header()):
    if authorization != "Bearer sk-bench":
        raise HTTPException(401)
    if not body.stream:
        return (await client.post(URL, json=body.model_dump())).json()
    async def pass_on():
        async with client.stream("POST", URL, json=body.model_dump()) as response:
            async for line in response.aiter_lines():
                if line:
                    yield line + "\\n\\n"
    return StreamingResponse(pass_on(), media_type="text/event-stream")
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_s(pid: int) -> float:
    """User and system time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@contextlib.contextmanager
def running(command: list[str], port: int, **environment: str) -> Iterator[int]:
    """Runs a server until the end of the block; gives its process id once it listens."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=quiet, stderr=quiet)
    try:
        end = time.monotonic() + 180
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[:4]} did not start")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


async def load(url: str, key: str, requests: int, *, stream: bool) -> list[float]:
    """Sends the requests over a few connections; seconds of each."""
    took: list[float] = []
    left = iter(range(requests))
    headers = {"authorization": f"Bearer {key}"}

    async def one(client: aiohttp.ClientSession) -> None:
        for _ in left:
            start = time.perf_counter()
            async with client.post(url, json={**BODY, "stream": stream}, headers=headers) as response:
                text = await response.read()
                assert response.status == 200, text[:300]
            took.append(time.perf_counter() - start)

    timeout = aiohttp.ClientTimeout(total=300)
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=timeout) as client,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(CONNECTIONS):
            group.create_task(one(client))
    return took


def measure(port: int, key: str, pid: int, requests: int, streams: int) -> dict[str, float]:
    """CPU microseconds for a request and for a streamed chunk."""
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    asyncio.run(load(url, key, max(20, requests // 20), stream=False))
    before = cpu_s(pid)
    asyncio.run(load(url, key, requests, stream=False))
    middle = cpu_s(pid)
    asyncio.run(load(url, key, streams, stream=True))
    after = cpu_s(pid)
    return {
        "request_us": (middle - before) / requests * 1e6,
        "chunk_us": (after - middle) / (streams * CHUNKS) * 1e6,
    }


def ours(folder: Path, upstream: str, requests: int, streams: int) -> dict[str, float]:
    """Our gateway: a key with limits, so that everything is on."""
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(safetensors({"w": b"w"}))
    mmodel = Mmodel(Settings(home=folder / "home"))
    mmodel.register(write_manifest(model, name="bench"))
    mmodel.deploy_url("bench", upstream, model="bench")
    key = mmodel.keys.create("bench", requests_per_minute=10**8, tokens_per_minute=10**9).secret
    with mmodel.serve(port=0, wait_for=["bench"]) as server:
        return measure(server.port, key, server.process.pid, requests, streams)


def plain(folder: Path, upstream: str, requests: int, streams: int) -> dict[str, float]:
    """What one writes first: FastAPI, Pydantic and httpx."""
    (folder / "plain.py").write_text(PLAIN)
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "plain:app", "--app-dir", str(folder), "--port", str(port)]
    with running([*command, "--log-level", "warning"], port, UPSTREAM=upstream) as pid:
        return measure(port, "sk-bench", pid, requests, streams)


def litellm(folder: Path, upstream: str, requests: int, streams: int) -> dict[str, float]:
    """LiteLLM's proxy, one worker, no database."""
    row = {"model": "openai/bench", "api_base": f"{upstream}/v1", "api_key": "x"}
    config = {
        "model_list": [{"model_name": "bench", "litellm_params": row}],
        "general_settings": {"master_key": "sk-bench-0123456789abcdef"},
    }
    (folder / "litellm.json").write_text(json.dumps(config))
    port = free_port()
    command = [str(litellm_python().with_name("litellm")), "--config", str(folder / "litellm.json")]
    command += ["--port", str(port), "--host", "127.0.0.1", "--num_workers", "1"]
    with running(command, port, LITELLM_LOCAL_MODEL_COST_MAP="True") as pid:
        time.sleep(3)
        return measure(port, "sk-bench-0123456789abcdef", pid, requests, streams)


def litellm_python() -> Path:
    """The interpreter of an environment with litellm[proxy], made on first use."""
    python = CACHE / "litellm" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(CACHE / "litellm")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", "litellm[proxy]"], check=True)
    return python


def litellm_version() -> str:
    command = [
        str(litellm_python()),
        "-c",
        "from importlib.metadata import version; print(version('litellm'))",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def row(name: str, peer: str, versions: str, values: tuple[float, float], bar: float) -> dict[str, Any]:
    """One row of the table: the ratio says how many times less CPU ours takes."""
    mine, theirs = values
    return {
        "layer": "l4", "name": name, "ours": round(mine, 1), "peer": round(theirs, 1),
        "peer_version": f"{peer} {versions}", "ratio": round(theirs / mine, 2), "unit": "us CPU",
        "how": f"{CONNECTIONS} connections, canned upstream, key with limits, ledger and metrics on",
        "bar": f"<= {bar:g} us", "ok": mine <= bar,
    }  # fmt: skip


def main() -> None:
    small = os.environ.get("OGAI_BENCH_SMALL") == "1"
    count, streams = (400, 20) if small else (3000, 100)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "upstream.py").write_text(UPSTREAM)
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "upstream:app", "--app-dir", name, "--port", str(port)]
        with running([*command, "--log-level", "error", "--lifespan", "off"], port):
            upstream = f"http://127.0.0.1:{port}"
            mine = ours(folder, upstream, count, streams)
            peers = [
                (
                    "FastAPI + httpx",
                    f"{version('fastapi')} + {version('httpx')}",
                    plain(folder, upstream, count, streams),
                )
            ]
            if not small:
                peers.append(
                    ("LiteLLM", litellm_version(), litellm(folder, upstream, count // 10, streams // 10))
                )
        for peer, versions, theirs in peers:
            for what, bar in (("request", 400), ("chunk", 60)):
                values = (mine[f"{what}_us"], theirs[f"{what}_us"])
                rows.append(row(f"gateway, {what}", peer, versions, values, bar))
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
