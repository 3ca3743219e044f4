"""The gateway: checks, limits and passes on; answers go through as they come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import aiohttp
import orjson

from l4_mmodel.security.keys import CHAT, COMPLETIONS, MODELS
from l4_mmodel.serving.asgi import (
    SSE,
    ClientGone,
    Receive,
    Scope,
    Send,
    cancelled_when_gone,
    error_event,
    parse_json,
    read_body,
    send_error,
    send_json,
)
from l4_mmodel.serving.limits import Refused
from l4_mmodel.serving.openai import ApiError, bad, check, most_tokens
from l4_mmodel.serving.runtimes.process import RuntimeProcess
from l4_mmodel.serving.runtimes.remote import Remote
from l4_mmodel.serving.supervisor import Runtime, Served, Supervisor

from .access import Access, Caller
from .ledger import Entry, Ledger
from .streams import EventStream

ASSUMED_TOKENS = 1024
"""What an answer may take when a key has a token limit and the request gives none."""

PROMPT_BYTES = 4
"""Bytes of a request that count as a token of its prompt until the runtime has counted."""

GONE_STATUS = 499
"""Written to the ledger when the client left (nginx's number)."""


class Gateway:
    """A raw ASGI application below `/v1`."""

    def __init__(
        self, access: Access, supervisor: Supervisor, ledger: Ledger, *, body_limit: int,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.access = access
        self.supervisor = supervisor
        self.ledger = ledger
        self.body_limit = body_limit
        self.clock = clock
        self.elsewhere = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._route(scope, receive, send)
        except ApiError as error:
            await send_error(send, error)
        except ClientGone:
            return

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix("/v1")
        caller = await self.access.caller(scope)
        method = scope["method"]
        if path in ("/chat/completions", "/completions"):
            _must_be(method, "POST")
            await self._complete(path, caller, receive, send)
        elif path == "/models":
            _must_be(method, "GET")
            caller.must_have(MODELS)
            await send_json(send, {"object": "list", "data": self.models(caller)})
        elif path.startswith("/models/"):
            _must_be(method, "GET")
            caller.must_have(MODELS)
            await send_json(send, self._model(caller, path.removeprefix("/models/")))
        else:
            raise ApiError(404, f"Unknown request URL: {method} /v1{path}.", code="unknown_url")

    def models(self, caller: Caller) -> list[dict[str, Any]]:
        """What the caller may use, in OpenAI's form."""
        return [
            {
                "id": name, "object": "model", "created": int(served.row.created_at),
                "owned_by": tenant,
            }
            for (tenant, name), (_, served) in sorted(self.supervisor.serving.items())
            if tenant == caller.tenant and caller.may_use(name)
        ]  # fmt: skip

    def _model(self, caller: Caller, name: str) -> dict[str, Any]:
        for row in self.models(caller):
            if row["id"] == name:
                return row
        raise _no_model(name)

    async def _complete(self, path: str, caller: Caller, receive: Receive, send: Send) -> None:
        chat = path == "/chat/completions"
        caller.must_have(CHAT if chat else COMPLETIONS)
        raw = await read_body(receive, self.body_limit)
        body = parse_json(raw)
        check(body, chat=chat)
        runtime, served = self._find(caller, body["model"])
        _must_be_able(runtime, body)
        now = self.clock()
        held = caller.limiter.enter(self._reserve(caller, raw, body), now)
        entry = Entry(
            now, caller.tenant, caller.name, body["model"], GONE_STATUS, len(raw) // PROMPT_BYTES, exact=False
        )  # fmt: skip
        start = time.perf_counter()
        try:
            if isinstance(held, Refused):
                raise _limited(held)
            served.enter()
            try:
                async with cancelled_when_gone(receive):
                    await self._pass_on(path, body, runtime, served, entry, send, start)
            finally:
                served.leave()
        except ApiError as error:
            entry.status, entry.prompt_tokens = error.status, 0
            raise
        finally:
            entry.seconds = time.perf_counter() - start
            if not isinstance(held, Refused):
                caller.limiter.leave(held, entry.prompt_tokens + entry.completion_tokens, self.clock())
            self.ledger.add(entry)

    def _find(self, caller: Caller, model: str) -> tuple[Runtime, Served]:
        if not caller.may_use(model):
            raise _no_model(model)
        found = self.supervisor.find(caller.tenant, model)
        if found is None:
            if self.elsewhere:
                raise ApiError(503, f"Models are served by another process: {self.elsewhere}", retry_s=1)
            raise _no_model(model)
        if not found[0].ready:
            raise _restarting()
        return found

    def _reserve(self, caller: Caller, raw: bytes, body: dict[str, Any]) -> int:
        """Tokens that the request may take at most; the prompt's are estimated from its bytes."""
        if caller.limiter.tokens is None:
            return 0
        if most_tokens(body) is None:
            body["max_tokens"] = ASSUMED_TOKENS
        return len(raw) // PROMPT_BYTES + (most_tokens(body) or 0) * (body.get("n") or 1)

    async def _pass_on(
        self,
        path: str,
        body: dict[str, Any],
        runtime: Runtime,
        served: Served,
        entry: Entry,
        send: Send,
        start: float,
    ) -> None:
        backend = runtime.backend
        headers = {"content-type": "application/json", "x-ogai-counts": "1"}
        asked = bool((body.get("stream_options") or {}).get("include_usage"))
        base = "http://runtime"
        if isinstance(backend, Remote):
            base, body = backend.url, {**body, "model": backend.model}
        elif served.adapter:
            headers["x-ogai-adapter"] = served.adapter
        if body.get("stream") and not _counts_by_header(backend):
            body = {**body, "stream_options": {"include_usage": True}}
        try:
            async with backend.session.post(
                f"{base}/v1{path}", data=orjson.dumps(body), headers=headers
            ) as response:
                if response.status != 200:
                    raise await _passed_error(response)
                if body.get("stream"):
                    await self._stream(response, entry, send, start, asked=asked)
                else:
                    await self._whole(response, served.model, entry, send)
        except (aiohttp.ClientError, OSError) as error:
            raise _restarting() from error

    async def _whole(self, response: aiohttp.ClientResponse, model: str, entry: Entry, send: Send) -> None:
        raw = await response.read()
        value = parse_json(raw)
        _count(entry, value.get("usage"))
        entry.status = 200
        if value.get("model") != model:
            value["model"] = model
            raw = orjson.dumps(value)
        await send_json(send, raw)

    async def _stream(
        self, response: aiohttp.ClientResponse, entry: Entry, send: Send, start: float, *, asked: bool
    ) -> None:
        events = EventStream(keep_usage=asked)
        await send({"type": "http.response.start", "status": 200, "headers": SSE})
        try:
            async for data in response.content.iter_any():
                shown = events.add(data)
                if shown:
                    if entry.first_token_s is None:
                        entry.first_token_s = time.perf_counter() - start
                    await send({"type": "http.response.body", "body": shown, "more_body": True})
            if not events.done:
                raise aiohttp.ClientPayloadError("the stream ended before its end")
            entry.status = 200
            await send({"type": "http.response.body", "body": b""})
        except (aiohttp.ClientError, OSError):
            # What was sent cannot be taken back: the client is told, and text is never repeated.
            entry.status = 502
            error = ApiError(502, "The model's runtime ended during the answer.", code="runtime_lost")
            await send({"type": "http.response.body", "body": error_event(error)})
        finally:
            if events.usage is None:
                entry.completion_tokens = events.count
            else:
                _count(entry, events.usage)


def _count(entry: Entry, usage: Any) -> None:
    if isinstance(usage, dict):
        entry.prompt_tokens = int(usage.get("prompt_tokens") or 0)
        entry.completion_tokens = int(usage.get("completion_tokens") or 0)
        entry.exact = True


async def _passed_error(response: aiohttp.ClientResponse) -> ApiError:
    """A runtime's own error: in OpenAI's form it goes through, any other is put into it."""
    raw = await response.read()
    try:
        found = orjson.loads(raw)["error"]
        message, param, code = str(found["message"]), found.get("param"), found.get("code")
    except (ValueError, KeyError, TypeError, AttributeError):
        message, param, code = f"The model's runtime answered {response.status}.", None, None
    status = response.status if response.status in (400, 404, 413, 429) else 502
    return ApiError(status, message, param=param, code=code if isinstance(code, str) else None)


def _counts_by_header(backend: RuntimeProcess | Remote) -> bool:
    return isinstance(backend, RuntimeProcess) and backend.spec.format == "safetensors"


def _must_be_able(runtime: Runtime, body: dict[str, Any]) -> None:
    backend = runtime.backend
    if body.get("echo") and isinstance(backend, RuntimeProcess) and "echo" not in backend.capabilities:
        raise bad("This model's runtime cannot echo the prompt.", "echo", "unsupported_parameter")


def _must_be(method: str, wanted: str) -> None:
    if method != wanted:
        raise ApiError(405, f"Not allowed: {method}; use {wanted}.", code="method_not_allowed")


def _no_model(name: str) -> ApiError:
    message = f"The model `{name}` does not exist or you do not have access to it."
    return ApiError(404, message, param="model", code="model_not_found")


def _restarting() -> ApiError:
    return ApiError(
        503, "The model is being restarted; try again shortly.", code="model_restarting", retry_s=1
    )


def _limited(refused: Refused) -> ApiError:
    limit = f"{refused.value} {refused.limit}"
    if refused.retry_s == float("inf"):
        message = f"The request is larger than this key's limit of {limit}."
        return ApiError(429, message, code="request_too_large")
    message = f"Rate limit reached: {limit}. Try again in {refused.retry_s:.3f} s."
    return ApiError(429, message, code="rate_limit_exceeded", retry_s=refused.retry_s)
