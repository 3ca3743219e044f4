"""What is measured: a runtime, spoken to in OpenAI's words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from l4_mmodel._kit import sandbox
from l4_mmodel._kit.problems import BadInput, Failed
from l4_mmodel.serving.runtimes.process import RuntimeProcess

from .latency import Timing
from .suite import Suite
from .tasks import TaskItem


@dataclass(frozen=True)
class Answer:
    """A generated text and how long it took."""

    text: str
    timing: Timing


class Target:
    """A model on a running runtime; `adapter` names one of its adapters, or none."""

    def __init__(self, process: RuntimeProcess, adapter: str = "") -> None:
        self.process = process
        self.adapter = adapter

    def must_be_able_to_run(self, suite: Suite) -> None:
        """Refuses a suite with a task that this runtime cannot score: a guess would look like a result."""
        if any(task.kind == "code" for task in suite.tasks):
            sandbox.must_be_there()
        for task in suite.tasks:
            if task.kind == "multiple_choice" and "score" not in self.process.capabilities:
                raise BadInput(
                    f"{self.process.description} gives no log-probabilities of a prompt",
                    field=f"tasks.{task.name}",
                    why="multiple choice is scored by them; without them the result would be chance",
                    do="evaluate the safetensors version, or make the task a generation",
                )

    async def score(self, items: Sequence[TaskItem], choice_prefix: str) -> list[list[list[float]]]:
        """Token log-probabilities: [item][choice][token]."""
        body = []
        for item in items:
            choices = [choice_prefix + choice for choice in item.choices]
            given: dict[str, Any] = {"messages": item.messages} if item.messages else {"prompt": item.text}
            body.append({**given, "choices": choices})
        answer = await self.process.post("/score", {"items": body}, adapter=self.adapter)
        return [row["logprobs"] for row in answer["items"]]

    async def generate(
        self,
        item: TaskItem,
        *,
        max_tokens: int,
        temperature: float = 0,
        seed: int | None = None,
        stop: Sequence[str] = (),
    ) -> Answer:
        """Streams one answer and times it."""
        body: dict[str, Any] = {
            "model": "target", "stream": True, "stream_options": {"include_usage": True},
            "max_tokens": max_tokens, "temperature": temperature,
        }  # fmt: skip
        if seed is not None:
            body["seed"] = seed
        if stop:
            body["stop"] = list(stop)
        if item.messages:
            path, body["messages"] = "/v1/chat/completions", item.messages
        else:
            path, body["prompt"] = "/v1/completions", item.text
        headers = {"x-ogai-adapter": self.adapter} if self.adapter else {}
        start = time.perf_counter()
        try:
            async with self.process.session.post(
                f"http://runtime{path}", json=body, headers=headers
            ) as response:
                if response.status != 200:
                    raise Failed(f"the runtime answered {response.status}: {(await response.text())[:500]}")
                return await _read_stream(response, start)
        except (aiohttp.ClientError, OSError) as error:
            raise Failed("the runtime went away during a request", why=str(error)) from error


async def _read_stream(response: aiohttp.ClientResponse, start: float) -> Answer:
    texts, first, last, tokens = [], None, start, 0
    async for line in response.content:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        chunk = orjson.loads(line[6:])
        if "error" in chunk:
            raise Failed(str(chunk["error"]["message"]))
        if chunk.get("usage"):
            tokens = chunk["usage"]["completion_tokens"]
        for choice in chunk["choices"]:
            text = choice["text"] if "text" in choice else choice["delta"].get("content")
            if text:
                texts.append(text)
                last = time.perf_counter()
                first = first or last
    first = first or time.perf_counter()
    return Answer("".join(texts), Timing(first - start, max(first, last) - start, tokens, len(texts)))
