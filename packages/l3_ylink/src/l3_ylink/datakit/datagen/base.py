"""The nouns of generation: a job with its key, what it made, and the talk with the model in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import orjson
import xxhash
from pydantic import BaseModel, ConfigDict

from .caller import Caller
from .client import Ask, Message
from .parse import spoken
from .prompts import REFUSALS, Language


def key_of(*parts: Any) -> str:
    """A key of plain values: 16 hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(orjson.dumps(parts))


class Job(NamedTuple):
    """Work that is done whole or not at all.  Its key depends on what goes in, never on when it is done."""

    key: str
    data: dict[str, Any]


class Made(NamedTuple):
    """A row: messages that were kept, or the reason why they were rejected."""

    key: str
    messages: list[Message]
    meta: dict[str, Any]
    reason: str = ""
    detail: str = ""

    def rejected(self, reason: str, detail: str = "") -> Made:
        """The same row, rejected."""
        return self._replace(reason=reason, detail=detail[:500])


class Sampling(BaseModel):
    """How answers are drawn."""

    model_config = ConfigDict(extra="forbid")

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 512


class Unfit(Exception):  # noqa: N818
    """An answer that cannot be used: the reason, and what shows it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


class Talk:
    """A job's questions: each has a seed of its own, so that the same job always asks the same."""

    def __init__(self, caller: Caller, key: str, sampling: Sampling, language: Language) -> None:
        self.caller, self.key, self.sampling, self.language = caller, key, sampling, language
        self.count = 0

    def ask(self, messages: str | Sequence[Message], *, cut: bool = False, cold: bool = False) -> str:
        """An answer; `Unfit` if empty, a refusal, or cut off where it may not be.  `cold`: no sampling."""
        turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        seed = xxhash.xxh3_64_intdigest(f"{self.key}/{self.count}") & 0x7FFFFFFF
        self.count += 1
        drawn = self.sampling.model_copy(update={"temperature": 0.0, "top_p": 1.0} if cold else {})
        said = self.caller.said(Ask(turns, drawn.temperature, drawn.top_p, drawn.max_tokens, seed))
        text = spoken(said.text)
        if not text:
            raise Unfit("empty")
        if said.finish == "length" and not cut:
            raise Unfit("cut_off", text[-200:])
        if text[:60].lower().startswith(REFUSALS):
            raise Unfit("refusal", text)
        return text


class Method(BaseModel, ABC):
    """A way to make rows, in rounds: jobs of one round do not depend on each other."""

    model_config = ConfigDict(extra="forbid")

    LIKE: ClassVar[float] = 0.7
    """Tasks as similar as this to one that is there are rejected (ROUGE-L)."""

    method: str

    def prepare(self, folder: Path, seed: int) -> None:
        """Loads what goes in; `BadInput` where it cannot."""

    def known(self) -> list[str]:
        """Tasks that are there before the first round."""
        return []

    @abstractmethod
    def jobs(self, number: int, kept: Sequence[Made], wanted: int) -> list[Job]:
        """The jobs of a round; none when there is nothing left to do."""

    @abstractmethod
    def tasks(self, job: Job, talk: Talk) -> list[Made]:
        """The rows of a job so far: a user's message, or that with its answer."""
