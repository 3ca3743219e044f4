"""The transformers runtime's HTTP interface: OpenAI's completions, and scoring of choices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from l4_mmodel.serving.asgi import (
    DONE,
    SSE,
    ClientGone,
    Receive,
    Scope,
    Send,
    cancelled_when_gone,
    error_event,
    header,
    parse_json,
    read_body,
    send_error,
    send_json,
)
from l4_mmodel.serving.openai import ApiError, bad, check, most_tokens, text_of

from .engine import Done, Engine, Event, Generate, Job, Score, Scores
from .packing import Tokens
from .sampling import Sampling
from .shapes import ChatShape, Shape, TextShape

LIMIT = 64 << 20
ADAPTER_HEADER = b"x-ogai-adapter"
COUNTS_HEADER = b"x-ogai-counts"
"""The gateway wants the last chunk with usage for its ledger; it keeps it from clients that do not."""

UNSUPPORTED = ("tools", "functions", "audio", "modalities")


class TransformersApp:
    """A raw ASGI application over an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.routes: dict[str, Callable[[Any, Scope, Receive, Send], Any]] = {
            "/v1/chat/completions": self.chat,
            "/v1/completions": self.completions,
            "/score": self.score,
            "/adapters": self.adapters,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] == "/health":
                await send_json(send, self.health())
                return
            route = self.routes.get(scope["path"])
            if route is None:
                raise ApiError(404, f"No such path: {scope['path']}")
            body = parse_json(await read_body(receive, LIMIT))
            async with cancelled_when_gone(receive):
                await route(body, scope, receive, send)
        except ApiError as error:
            await send_error(send, error)
        except ClientGone:
            return

    def health(self) -> dict[str, Any]:
        """What this runtime is and can do."""
        import transformers

        return {
            "status": "ready",
            "runtime": f"transformers {transformers.__version__} {self.engine.dtype}",
            "capabilities": ["chat", "completions", "echo", "logprobs", "score", "adapters"],
            "adapters": sorted(self.engine.adapters),
            "context": self.engine.context,
        }

    async def adapters(self, body: Any, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Loads an adapter: {name, folder}."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self.engine.load_adapter, body["name"], Path(body["folder"]))
        except Exception as error:  # peft raises many kinds for an adapter that does not fit
            raise bad(f"the adapter does not fit this base: {error}", "folder") from error
        await send_json(send, {"adapters": sorted(self.engine.adapters)})

    async def score(self, body: Any, scope: Scope, _receive: Receive, send: Send) -> None:
        """{items: [{messages | prompt, choices}]} → {items: [{logprobs: [[…] a choice]}], tokens}."""
        items = [self._tokens(item) for item in body["items"]]
        found: list[Any] = [None] * len(items)
        async for what in self._events(Score(_nowhere, self._adapter(scope), items=items)):
            if isinstance(what, Scores):
                found[what.item] = {"logprobs": what.choices}
        await send_json(send, {"items": found, "tokens": sum(item.width for item in items)})

    def _tokens(self, item: dict[str, Any]) -> Tokens:
        encode = self.engine.tokenizer.encode
        if "messages" in item:
            prompt = self._chat_prompt(item["messages"])
            choices = [encode(choice, add_special_tokens=False) for choice in item["choices"]]
        else:
            prompt = encode(item["prompt"])
            whole = [encode(item["prompt"] + choice) for choice in item["choices"]]
            choices = [ids[len(prompt) :] for ids in whole]
        tokens = Tokens(prompt, choices)
        if not prompt or not all(choices):
            raise bad("A prompt and every choice must have at least one token.", "choices")
        if len(prompt) + max(map(len, choices)) > self.engine.context:
            raise bad(
                f"An item is longer than {self.engine.context} tokens.", "items", "context_length_exceeded"
            )
        return tokens

    def _chat_prompt(self, messages: list[dict[str, Any]]) -> list[int]:
        plain = [{**message, "content": text_of(message.get("content"))} for message in messages]
        try:
            encoded = self.engine.tokenizer.apply_chat_template(
                plain, add_generation_prompt=True, return_dict=False
            )
        except (ValueError, TypeError, KeyError) as error:
            raise bad(f"The model's chat template refuses these messages: {error}", "messages") from error
        return [int(token) for token in encoded]

    async def chat(self, body: Any, scope: Scope, _receive: Receive, send: Send) -> None:
        """Chat completions."""
        check(body, chat=True)
        _refuse_unsupported(body)
        wanted = (body.get("top_logprobs") or 0) if body.get("logprobs") else None
        job = self._job(body, scope, self._chat_prompt(body["messages"]), wanted, default=None)
        await self._answer(ChatShape(self.engine, body, _counts_wanted(scope)), [job], body, send)

    async def completions(self, body: Any, scope: Scope, _receive: Receive, send: Send) -> None:
        """Completions, also of token ids, of many prompts, with echo and log-probabilities."""
        check(body, chat=False)
        _refuse_unsupported(body)
        if body.get("best_of") not in (None, body.get("n") or 1):
            raise bad("'best_of' above 'n' is not supported.", "best_of")
        prompt = body["prompt"]
        prompts = prompt if isinstance(prompt, list) and not isinstance(prompt[0], int) else [prompt]
        encoded = [self.engine.tokenizer.encode(one) if isinstance(one, str) else one for one in prompts]
        jobs = [self._job(body, scope, ids, body.get("logprobs"), default=16) for ids in encoded]
        await self._answer(TextShape(self.engine, body, _counts_wanted(scope)), jobs, body, send)

    def _job(
        self, body: dict[str, Any], scope: Scope, prompt: list[int], logprobs: int | None, default: int | None
    ) -> Generate:
        room = self.engine.context - len(prompt)
        wanted = most_tokens(body)
        if not prompt or max(prompt) >= self.engine.model.config.vocab_size:
            raise bad("The prompt is empty or has token ids that the model does not know.", "prompt")
        if room < (1 if wanted is None else min(wanted, 1)):
            raise bad(
                f"This model's context is {self.engine.context} tokens, the prompt has {len(prompt)}.",
                "messages" if "messages" in body else "prompt", "context_length_exceeded",
            )  # fmt: skip
        stop = body.get("stop") or ()
        limit = wanted if wanted is not None else room if default is None else default
        return Generate(
            _nowhere,
            self._adapter(scope),
            prompt=prompt,
            n=body.get("n") or 1,
            max_tokens=min(room, limit),
            sampling=_sampling(body),
            stops=[stop] if isinstance(stop, str) else stop,
            logprobs=logprobs,
            echo=bool(body.get("echo")),
        )

    def _adapter(self, scope: Scope) -> str:
        adapter = header(scope, ADAPTER_HEADER)
        if adapter and adapter not in self.engine.adapters:
            raise ApiError(404, "That adapter is not loaded.", code="model_not_found")
        return adapter

    async def _events(self, job: Job) -> AsyncIterator[Event]:
        """What a job reports; leaving the loop early cancels it."""
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[Event] = asyncio.Queue()

        def emit(what: Event) -> None:
            loop.call_soon_threadsafe(inbox.put_nowait, what)

        job.emit = emit
        self.engine.submit(job)
        try:
            while True:
                what = await inbox.get()
                if isinstance(what, Exception):
                    raise ApiError(500, f"The model failed: {what}", code="runtime_failed")
                yield what
                if isinstance(what, Done):
                    return
        finally:
            job.cancelled.set()

    async def _answer(self, shape: Shape, jobs: list[Generate], body: dict[str, Any], send: Send) -> None:
        if body.get("stream"):
            await self._stream(shape, jobs, send)
        else:
            await self._whole(shape, jobs, send)

    async def _whole(self, shape: Shape, jobs: list[Generate], send: Send) -> None:
        for number, job in enumerate(jobs):
            async for what in self._events(job):
                shape.collect(number * job.n, what)
        await send_json(send, shape.whole())

    async def _stream(self, shape: Shape, jobs: list[Generate], send: Send) -> None:
        started = False
        try:
            for number, job in enumerate(jobs):
                async for what in self._events(job):
                    chunks = b"".join(shape.chunks(number * job.n, what))
                    if not started:
                        await send({"type": "http.response.start", "status": 200, "headers": SSE})
                        started = True
                    if chunks:
                        await send({"type": "http.response.body", "body": chunks, "more_body": True})
            await send({"type": "http.response.body", "body": shape.last() + DONE})
        except ApiError as error:
            if not started:
                raise
            await send({"type": "http.response.body", "body": error_event(error)})


def _counts_wanted(scope: Scope) -> bool:
    return bool(header(scope, COUNTS_HEADER))


def _sampling(body: dict[str, Any]) -> Sampling:
    def value(name: str, default: float) -> float:
        given = body.get(name)
        return default if given is None else float(given)

    return Sampling(
        temperature=value("temperature", 1.0),
        top_p=value("top_p", 1.0),
        presence_penalty=value("presence_penalty", 0.0),
        frequency_penalty=value("frequency_penalty", 0.0),
        logit_bias={int(token): float(bias) for token, bias in (body.get("logit_bias") or {}).items()},
        seed=body.get("seed"),
    )


def _refuse_unsupported(body: dict[str, Any]) -> None:
    for name in UNSUPPORTED:
        if body.get(name):
            raise bad(f"This runtime does not support '{name}'.", name, "unsupported_parameter")
    kind = (body.get("response_format") or {}).get("type", "text")
    if kind != "text":
        raise bad(
            f"This runtime does not support the response format '{kind}'.",
            "response_format",
            "unsupported_parameter",
        )


def _nowhere(_what: Event) -> None:
    """Replaced before a job is submitted."""
