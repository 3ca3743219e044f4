"""How an engine's events become OpenAI's JSON; the two kinds of completion differ only here."""

from __future__ import annotations

import time
import uuid
from typing import Any

from l4_mmodel.serving.asgi import event

from .engine import Done, Engine, Event, Piece, TokenScore


class Shape:
    """How events become OpenAI's JSON; the two kinds of completion differ only here."""

    object = ""
    chunk_object = ""
    prefix = ""

    def __init__(self, engine: Engine, body: dict[str, Any], counts_wanted: bool) -> None:
        self.engine = engine
        self.counts_wanted = counts_wanted
        self.head = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "object": self.object,
            "created": int(time.time()),
            "model": body["model"],
        }
        self.with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self.prompt_tokens = self.completion_tokens = 0
        self.texts: dict[int, list[str]] = {}
        self.scores: dict[int, list[TokenScore]] = {}
        self.finishes: dict[int, str] = {}
        self.scored = bool(body.get("logprobs")) or body.get("logprobs") == 0

    def collect(self, first: int, what: Event) -> None:
        """Keeps an event for the whole answer."""
        if isinstance(what, Piece):
            index = first + what.choice
            self.texts.setdefault(index, []).append(what.text)
            self.scores.setdefault(index, []).extend(what.scores)
            if what.finish:
                self.finishes[index] = what.finish
        elif isinstance(what, Done):
            self.prompt_tokens += what.prompt_tokens
            self.completion_tokens += what.completion_tokens

    def whole(self) -> dict[str, Any]:
        """The answer that is not streamed."""
        choices = [
            self.choice(index, "".join(self.texts[index]), self.scores[index], self.finishes[index])
            for index in sorted(self.texts)
        ]
        return {**self.head, "choices": choices, "usage": self.usage()}

    def usage(self) -> dict[str, Any]:
        """Exact counts."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }

    def chunks(self, first: int, what: Event) -> list[bytes]:
        """The events of a stream that an event of the engine makes."""
        if isinstance(what, Done):
            self.collect(first, what)
        if not isinstance(what, Piece):
            return []
        index = first + what.choice
        made = []
        if index not in self.texts:
            self.texts[index] = []
            made += self.opening(index)
        if what.text or what.scores:
            made.append(self.part(index, what.text, what.scores))
        if what.finish:
            made.append(self.closing(index, what.finish))
        return [event(self._chunk([choice])) for choice in made]

    def last(self) -> bytes:
        """The chunk with usage and no choices, if the client or the gateway asked for it."""
        if not (self.with_usage or self.counts_wanted):
            return b""
        return event({**self.head, "object": self.chunk_object, "choices": [], "usage": self.usage()})

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        chunk = {**self.head, "object": self.chunk_object, "choices": choices}
        return {**chunk, "usage": None} if self.with_usage else chunk

    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str) -> dict[str, Any]:
        raise NotImplementedError

    def opening(self, _index: int) -> list[dict[str, Any]]:
        return []

    def part(self, index: int, text: str, scores: list[TokenScore]) -> dict[str, Any]:
        raise NotImplementedError

    def closing(self, index: int, finish: str) -> dict[str, Any]:
        raise NotImplementedError

    def token_text(self, token: int) -> str:
        return str(self.engine.tokenizer.decode([token]))


class ChatShape(Shape):
    """Chat completions."""

    object = "chat.completion"
    chunk_object = "chat.completion.chunk"
    prefix = "chatcmpl"

    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {
            "index": index,
            "message": message,
            "logprobs": self.logprobs(scores),
            "finish_reason": finish,
        }

    def opening(self, index: int) -> list[dict[str, Any]]:
        delta = {"role": "assistant", "content": "", "refusal": None}
        return [{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}]

    def part(self, index: int, text: str, scores: list[TokenScore]) -> dict[str, Any]:
        logprobs = self.logprobs(scores)
        return {"index": index, "delta": {"content": text}, "logprobs": logprobs, "finish_reason": None}

    def closing(self, index: int, finish: str) -> dict[str, Any]:
        return {"index": index, "delta": {}, "logprobs": None, "finish_reason": finish}

    def logprobs(self, scores: list[TokenScore]) -> dict[str, Any] | None:
        if not self.scored:
            return None
        rows = [
            {
                **self._entry(score.token, score.logprob),
                "top_logprobs": [self._entry(token, value) for token, value in score.top],
            }
            for score in scores
        ]
        return {"content": rows, "refusal": None}

    def _entry(self, token: int, logprob: float | None) -> dict[str, Any]:
        text = self.token_text(token)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


class TextShape(Shape):
    """Completions."""

    object = chunk_object = "text_completion"
    prefix = "cmpl"

    def __init__(self, engine: Engine, body: dict[str, Any], counts_wanted: bool) -> None:
        super().__init__(engine, body, counts_wanted)
        self.offsets: dict[int, int] = {}

    def choice(self, index: int, text: str, scores: list[TokenScore], finish: str | None) -> dict[str, Any]:
        logprobs = self.logprobs(index, scores)
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def part(self, index: int, text: str, scores: list[TokenScore]) -> dict[str, Any]:
        return self.choice(index, text, scores, None)

    def closing(self, index: int, finish: str) -> dict[str, Any]:
        return {"index": index, "text": "", "logprobs": None, "finish_reason": finish}

    def logprobs(self, index: int, scores: list[TokenScore]) -> dict[str, Any] | None:
        if not self.scored:
            return None
        tokens = [self.token_text(score.token) for score in scores]
        offset, offsets = self.offsets.get(index, 0), []
        for token in tokens:
            offsets.append(offset)
            offset += len(token)
        self.offsets[index] = offset
        tops = [
            {self.token_text(token): value for token, value in score.top}
            if score.logprob is not None
            else None
            for score in scores
        ]
        values = [score.logprob for score in scores]
        return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}
