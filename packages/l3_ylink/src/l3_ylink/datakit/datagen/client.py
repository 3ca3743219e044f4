"""A language model to ask: any server with OpenAI's interface, or a folder that transformers loads."""

from __future__ import annotations

import email.utils
import os
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import httpx
from pydantic import BaseModel, ConfigDict, Field, model_validator

from l3_ylink._kit.documents import digest_of
from l3_ylink._kit.problems import BadInput, Unavailable

Message = dict[str, str]


class Ask(NamedTuple):
    """One question: messages, how to sample, and the seed that makes the answer the same again."""

    messages: list[Message]
    temperature: float = 0.7
    top_p: float = 1.0
    max_tokens: int = 512
    seed: int = 0


class Said(NamedTuple):
    """An answer with what it cost."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: str = "stop"


class Busy(Exception):  # noqa: N818 (it is no error of ours)
    """The server cannot answer now; `after` seconds it might."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


class Refused(Exception):  # noqa: N818
    """The server will not answer this question, however often it is asked."""


class Price(BaseModel):
    """What a million tokens cost, in the currency of the budget."""

    model_config = ConfigDict(extra="forbid")

    input: float = Field(0, ge=0)
    output: float = Field(0, ge=0)


class ModelSpec(BaseModel):
    """Which model: a server's `url` (up to /v1) and the model's `name` there, or a local `folder`."""

    model_config = ConfigDict(extra="forbid")

    url: str | None = Field(None, description="an OpenAI-compatible server, up to and with /v1")
    name: str = Field("", description="the model's name on the server")
    folder: Path | None = Field(None, description="a model that transformers loads (extra sft)")
    key_env: str = Field("OPENAI_API_KEY", description="environment variable that holds the server's key")
    price: Price = Field(default_factory=Price)
    timeout: float = Field(120, gt=0, description="seconds for one answer")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.url is None) == (self.folder is None):
            raise ValueError("give either url or folder")
        if self.url is not None:
            parts = httpx.URL(self.url)
            if parts.scheme not in ("http", "https") or not parts.host:
                raise ValueError("url is no http or https address")
            if parts.password:
                raise ValueError("url holds a password: put the key into an environment variable (key_env)")
        return self

    @property
    def identity(self) -> str:
        """What answers depend on: part of the cache's key."""
        return digest_of({"url": self.url, "name": self.name, "folder": str(self.folder or "")})


class Model(Protocol):
    """What can be asked.  Raises `Busy`, `Refused`, or `Unavailable` when there is no use in going on."""

    def ask(self, ask: Ask) -> Said:
        """The answer."""
        ...

    def close(self) -> None:
        """Lets go of what it holds."""
        ...


def open_model(spec: ModelSpec, *, base: Path = Path()) -> Model:
    """The model of a specification; a relative folder lies below `base`."""
    if spec.folder is not None:
        from .local import LocalModel

        return LocalModel(base / spec.folder)
    return OpenAiModel(spec)


class OpenAiModel:
    """A server with OpenAI's chat interface: vLLM, llama.cpp, SGLang, a provider, our own."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        key = os.environ.get(spec.key_env, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.client = httpx.Client(headers=headers, timeout=spec.timeout, follow_redirects=False)
        self.url = f"{(spec.url or '').rstrip('/')}/chat/completions"

    def ask(self, ask: Ask) -> Said:
        """Asks once."""
        body = {"model": self.spec.name, **ask._asdict()}
        try:
            answer = self.client.post(self.url, json=body)
        except httpx.HTTPError as error:
            raise Busy(f"{type(error).__name__}: {error}") from error
        _check(answer, self.spec)
        try:
            return _said(answer.json(), ask)
        except (ValueError, LookupError, TypeError) as error:
            raise Busy(f"an answer that is not OpenAI's: {answer.text[:200]}") from error

    def close(self) -> None:
        """Closes its connections."""
        self.client.close()


def _check(answer: httpx.Response, spec: ModelSpec) -> None:
    """Raises what the status means."""
    code = answer.status_code
    if code == 200:
        return
    why = f"{code}: {_message(answer)}"
    if code in (401, 403):
        raise Unavailable(
            "the model's server refuses our key", why=why, do=f"put a key that it knows into {spec.key_env}"
        )
    if code == 404:
        raise Unavailable(f"the server has no model {spec.name!r}", why=why, do="check url and name")
    if code in (408, 409, 425, 429) or code >= 500:
        raise Busy(why, _after(answer.headers.get("retry-after", "")))
    if 400 <= code < 500:
        raise Refused(why)
    raise Unavailable("the model's server answers something else", why=why, do="check url: it goes up to /v1")


def _message(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:300]
    except (ValueError, LookupError, TypeError):
        return answer.text[:300]


def _after(value: str) -> float:
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def _said(body: Any, ask: Ask) -> Said:
    choice = body["choices"][0]
    text = choice["message"]["content"]
    if text is None:
        text = ""
    if not isinstance(text, str):
        raise TypeError(text)
    usage = body.get("usage") or {}
    asked = sum(len(message["content"]) for message in ask.messages)
    return Said(
        text,
        int(usage.get("prompt_tokens") or asked // 3 + 1),
        int(usage.get("completion_tokens") or len(text) // 3 + 1),
        str(choice.get("finish_reason") or "stop"),
    )


def must_be_named(spec: ModelSpec) -> None:
    """`BadInput` for a server without a model's name."""
    if spec.url is not None and not spec.name:
        raise BadInput("is missing", field="model.name", do="give the model's name on the server")
