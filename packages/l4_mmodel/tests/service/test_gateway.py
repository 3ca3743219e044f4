"""The gateway before an upstream that misbehaves on command: what clients and the ledger see."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import uvicorn
from aiohttp import web
from l4_mmodel.api import Mmodel, Settings, create_app
from l4_mmodel.serving.gateway.ledger import totals
from l4_mmodel.web.app import FastPath

ModelMaker = Callable[..., Path]
TIMEOUT = aiohttp.ClientTimeout(total=30)


@dataclass
class Upstream:
    """An OpenAI-compatible server that does as it is told."""

    behaviour: str = "answer"
    url: str = ""
    seen: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)
    tokens: int = 3

    async def has_seen(self, count: int) -> None:
        """Waits for the request of that number."""
        for _ in range(1000):
            if len(self.seen) >= count:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"only {len(self.seen)} requests came")

    async def models(self, _request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": []})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.seen.append(body)
        self.headers.append(dict(request.headers))
        try:
            return await self._do(request, body)
        except (asyncio.CancelledError, ConnectionResetError):
            self.aborted.set()
            raise

    async def _do(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        usage = {"prompt_tokens": 5, "completion_tokens": self.tokens, "total_tokens": 5 + self.tokens}
        if self.behaviour == "fail":
            return web.Response(status=500, text="<html>secret stack trace</html>")
        if self.behaviour == "refuse":
            return web.json_response(
                {"error": {"message": "too long", "param": "messages", "code": "x"}}, status=400
            )
        if self.behaviour == "hang":
            await asyncio.sleep(60)
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
            return web.json_response({"id": "x", "model": "internal", "choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number in range(self.tokens):
            chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": f"t{number} "}}]}
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            if self.behaviour == "hang after a token":
                for _ in range(600):
                    await asyncio.sleep(0.05)
                    await response.write(b": alive\n\n")
        if self.behaviour == "cut":
            assert request.transport is not None
            request.transport.abort()
            return response
        if body.get("stream_options", {}).get("include_usage"):
            chunk = {"choices": [], "usage": usage}
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response


@dataclass
class World:
    """A gateway in this process, an upstream behind it, and a key."""

    mmodel: Mmodel
    upstream: Upstream
    url: str
    key: str
    client: aiohttp.ClientSession

    def post(self, key: str | None = None, **body: Any) -> Any:
        headers = {"authorization": f"Bearer {key or self.key}"}
        content = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], **body}
        return self.client.post(f"{self.url}/v1/chat/completions", json=content, headers=headers)

    async def ledger(self, count: int) -> dict[str, Any]:
        """The one row of usage, once it has `count` requests."""
        for _ in range(100):
            rows = await asyncio.to_thread(totals, self.mmodel.store, "default")
            if sum(row["requests"] for row in rows) >= count:
                return rows[0]
            await asyncio.sleep(0.05)
        raise AssertionError("nothing was written")


@pytest_asyncio.fixture
async def world(settings: Settings, make_model: ModelMaker, tmp_path: Path) -> AsyncIterator[World]:
    upstream = Upstream()
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", upstream.chat), web.get("/v1/models", upstream.models)])
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    (tmp_path / "key").write_text("sk-upstream-secret\n")
    mmodel = Mmodel(settings)
    mmodel.register(make_model())
    mmodel.deploy_url("tiny", upstream.url, model="internal", key_file=tmp_path / "key")
    key = mmodel.keys.create("k").secret
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(FastPath(create_app(settings)), log_config=None, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with aiohttp.ClientSession(timeout=TIMEOUT) as client:
            for _ in range(200):
                if mmodel.deployed.get("default", "tiny").state == "ready":
                    break
                await asyncio.sleep(0.05)
            yield World(mmodel, upstream, url, key, client)
    finally:
        server.should_exit = True
        await serving
        await runner.cleanup()
        mmodel.close()


@pytest.mark.asyncio
async def test_an_answer_goes_through_under_our_name_and_key(world: World) -> None:
    async with world.post() as response:
        body = await response.json()
    assert (response.status, body["model"], body["choices"][0]["message"]["content"]) == (200, "tiny", "hi")
    assert world.upstream.seen[0]["model"] == "internal"
    assert world.upstream.headers[0]["Authorization"] == "Bearer sk-upstream-secret"
    row = await world.ledger(1)
    assert (row["key"], row["prompt_tokens"], row["completion_tokens"]) == ("k", 5, 3)


@pytest.mark.asyncio
@pytest.mark.parametrize("asked", [True, False])
async def test_usage_reaches_the_ledger_and_only_who_asked(world: World, asked: bool) -> None:
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    async with world.post(stream=True, **options) as response:
        text = await response.text()
    assert ('"usage"' in text) is asked
    assert text.endswith("data: [DONE]\n\n")
    row = await world.ledger(1)
    assert (row["prompt_tokens"], row["completion_tokens"]) == (5, 3)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("behaviour", "stream"), [("hang", False), ("hang", True), ("hang after a token", True)]
)
async def test_the_client_gone_the_upstream_is_let_go(world: World, behaviour: str, stream: bool) -> None:
    world.upstream.behaviour = behaviour
    response = asyncio.create_task(world.post(stream=stream).__aenter__())
    await world.upstream.has_seen(1)
    if behaviour == "hang after a token":
        (await response).close()
    else:
        response.cancel()
    start = time.perf_counter()
    await asyncio.wait_for(world.upstream.aborted.wait(), 5)
    assert time.perf_counter() - start < 2  # 50 ms on a quiet machine
    assert (await world.ledger(1))["requests"] == 1


@pytest.mark.asyncio
async def test_a_stream_cut_in_the_middle_is_told_and_nothing_repeated(world: World) -> None:
    world.upstream.behaviour = "cut"
    async with world.post(stream=True) as response:
        text = await response.text()
    assert text.count("t0 ") == 1
    assert '"code":"runtime_lost"' in text
    assert "[DONE]" not in text


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("behaviour", "status", "part"), [("fail", 502, "answered 500"), ("refuse", 400, "too long")]
)
async def test_an_upstreams_error_comes_in_openais_form(
    world: World, behaviour: str, status: int, part: str
) -> None:
    world.upstream.behaviour = behaviour
    async with world.post() as response:
        body = await response.json()
    assert response.status == status
    assert part in body["error"]["message"]
    assert "secret" not in json.dumps(body)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b"[]", 400, "invalid_body"),
        (b'{"model": "tiny"}', 400, "invalid_value"),
        (b" " * (17 << 20), 413, "request_too_large"),
    ],
)
async def test_bad_bodies(world: World, raw: bytes, status: int, code: str) -> None:
    headers = {"authorization": f"Bearer {world.key}"}
    async with world.client.post(
        f"{world.url}/v1/chat/completions", data=io.BytesIO(raw), headers=headers
    ) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (status, code)
    assert world.upstream.seen == []


@pytest.mark.asyncio
async def test_keys_end_expire_and_are_restricted(world: World) -> None:
    keys = world.mmodel.keys
    cases = {
        keys.create("revoked").secret: 401,
        keys.create("expired", lifetime_s=0.001).secret: 401,
        keys.create("elsewhere", models=["other"]).secret: 404,
        keys.create("lists", scopes=["models"]).secret: 403,
        world.mmodel.of("rival", "test").keys.create("rival").secret: 404,
        "sk-ogai-" + "x" * 43: 401,
    }
    keys.revoke("revoked")
    await asyncio.sleep(0.5)
    for key, status in cases.items():
        async with world.post(key) as response:
            assert response.status == status
            assert key not in await response.text()
    async with world.client.post(f"{world.url}/v1/chat/completions", json={}) as response:
        assert (response.status, response.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.asyncio
async def test_limits_hold_under_parallel_clients(world: World) -> None:
    key = world.mmodel.keys.create("few", requests_per_minute=5).secret

    async def one() -> tuple[int, str]:
        async with world.post(key) as response:
            return response.status, response.headers.get("retry-after", "")

    answers = await asyncio.gather(*(one() for _ in range(40)))
    assert sorted({status for status, _ in answers}) == [200, 429]
    assert [status for status, _ in answers].count(200) == 5
    assert all(50 < int(after) <= 60 for status, after in answers if status == 429)


@pytest.mark.asyncio
async def test_tokens_are_reserved_before_and_settled_after(world: World) -> None:
    key = world.mmodel.keys.create("budget", tokens_per_minute=400).secret
    async with world.post(key, max_tokens=1000) as response:
        assert (response.status, (await response.json())["error"]["code"]) == (429, "request_too_large")
    for _ in range(6):  # each reserves 300 and takes 8
        async with world.post(key, max_tokens=300) as response:
            assert response.status == 200
    assert {body["max_tokens"] for body in world.upstream.seen} == {300}
    world.upstream.behaviour = "hang"
    holding = asyncio.create_task(world.post(key, max_tokens=300).__aenter__())
    await world.upstream.has_seen(7)
    async with world.post(key, max_tokens=300) as response:
        assert response.status == 429
    holding.cancel()


@pytest.mark.asyncio
async def test_unknown_paths_and_methods(world: World) -> None:
    headers = {"authorization": f"Bearer {world.key}"}
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/v1/models/none", 404),
    ):
        async with world.client.request(method, world.url + path, headers=headers) as response:
            assert response.status == status
            assert (await response.json())["error"]["type"] == "invalid_request_error"


@pytest.mark.asyncio
async def test_metrics_are_in_vllms_words(world: World) -> None:
    async with world.post(stream=True) as response:
        await response.read()
    async with world.client.get(f"{world.url}/metrics") as response:
        text = await response.text()
    assert 'ogai_l4_time_to_first_token_seconds_count{model_name="tiny"} 1.0' in text
    assert 'ogai_l4_generation_tokens_total{model_name="tiny"} 3.0' in text
