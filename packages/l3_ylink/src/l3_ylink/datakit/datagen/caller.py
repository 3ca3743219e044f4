"""Asking within a budget: answers are cached by digest, busy servers asked again, nothing is paid twice."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from l3_ylink._kit.documents import digest_of
from l3_ylink._kit.problems import Unavailable

from .client import Ask, Busy, Message, Model, ModelSpec, Said, must_be_named, open_model

TRIES = 6
LONGEST_WAIT = 120.0
OVERHEAD = 64
"""Tokens that a chat template may add."""

TABLES = """
CREATE TABLE IF NOT EXISTS answers (digest TEXT PRIMARY KEY, said TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spent (
    one INTEGER PRIMARY KEY CHECK (one = 1), requests INTEGER NOT NULL, prompt INTEGER NOT NULL,
    completion INTEGER NOT NULL, money REAL NOT NULL);
INSERT OR IGNORE INTO spent VALUES (1, 0, 0, 0, 0);
"""


class Spent(Exception):  # noqa: N818 (an end, not a fault)
    """The budget would not hold one more answer; the message names the bound."""


class Budget(BaseModel):
    """What all answers together may cost, over all starts of a run; unset means no bound."""

    model_config = ConfigDict(extra="forbid")

    requests: int | None = Field(None, ge=1)
    tokens: int | None = Field(None, ge=1, description="of questions and answers")
    money: float | None = Field(None, gt=0, description="in the currency of the model's price")


class Cost(NamedTuple):
    """What was spent."""

    requests: int = 0
    prompt: int = 0
    completion: int = 0
    money: float = 0.0

    def plus(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))  # type: ignore[arg-type]

    def beyond(self, budget: Budget) -> str:
        """Which bound this is beyond, or ""."""
        if budget.requests is not None and self.requests > budget.requests:
            return "requests"
        if budget.tokens is not None and self.prompt + self.completion > budget.tokens:
            return "tokens"
        return "money" if budget.money is not None and self.money > budget.money else ""


class Caller:
    """A model behind a cache and a budget, for any number of threads.

    Before a request what it may cost at most is set aside, so that the budget is never gone beyond.
    """

    def __init__(
        self, spec: ModelSpec, cache: Path, budget: Budget | None = None, *, base: Path = Path(),
        model: Model | None = None, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        must_be_named(spec)
        self.spec, self.budget, self.sleep = spec, budget or Budget(), sleep
        self.model = model or open_model(spec, base=base)
        self.lock = threading.Lock()
        cache.parent.mkdir(parents=True, exist_ok=True)
        self.base = sqlite3.connect(cache, isolation_level=None, check_same_thread=False)
        self.base.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + TABLES)
        row = self.base.execute("SELECT requests, prompt, completion, money FROM spent").fetchone()
        self.cost = Cost(*row)
        self.aside = Cost()
        self.cached = 0

    def close(self) -> None:
        """Ends it; the cache stays."""
        self.model.close()
        self.base.close()

    def ask(
        self, messages: list[Message], *, temperature: float = 0.7, top_p: float = 1.0, max_tokens: int = 512,
        seed: int = 0,
    ) -> str:  # fmt: skip
        """The answer's text.  Raises `Spent`, `Refused`, or `Unavailable` when the server stays away."""
        return self.said(Ask(messages, temperature, top_p, max_tokens, seed)).text

    def said(self, ask: Ask) -> Said:
        """The answer with its cost; from the cache if the same was asked before."""
        digest = digest_of({"model": self.spec.identity, **ask._asdict()})
        with self.lock:
            row = self.base.execute("SELECT said FROM answers WHERE digest=?", (digest,)).fetchone()
            if row is not None:
                self.cached += 1
                return Said(*json.loads(row[0]))
            most = self._most(ask)
            bound = self.cost.plus(self.aside).plus(most).beyond(self.budget)
            if bound:
                raise Spent(bound)
            self.aside = self.aside.plus(most)
        try:
            said = self._tried(ask)
            self._keep(digest, said)
            return said
        finally:
            with self.lock:
                self.aside = self.aside.plus(Cost(*(-part for part in most)))  # type: ignore[arg-type]

    def _most(self, ask: Ask) -> Cost:
        """The most that an answer can cost: no token is shorter than a byte."""
        prompt = sum(len(message["content"].encode()) + OVERHEAD for message in ask.messages)
        return Cost(1, prompt, ask.max_tokens, self._money(prompt, ask.max_tokens))

    def _money(self, prompt: int, completion: int) -> float:
        return (prompt * self.spec.price.input + completion * self.spec.price.output) / 1e6

    def _tried(self, ask: Ask) -> Said:
        for number in range(TRIES):
            try:
                return self.model.ask(ask)
            except Busy as busy:
                if number == TRIES - 1 or busy.after > LONGEST_WAIT:
                    raise Unavailable(
                        "the model does not answer", why=str(busy),
                        do="run the same command when it does: what was answered is kept",
                    ) from busy  # fmt: skip
                self.sleep(max(busy.after, 0.5 * 2**number))
        raise AssertionError("unreachable")

    def _keep(self, digest: str, said: Said) -> None:
        cost = Cost(
            1, said.prompt_tokens, said.completion_tokens,
            self._money(said.prompt_tokens, said.completion_tokens),
        )  # fmt: skip
        with self.lock:
            self.base.execute("BEGIN IMMEDIATE")
            self.base.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (digest, json.dumps(said)))
            self.base.execute(
                "UPDATE spent SET requests=requests+?, prompt=prompt+?, completion=completion+?,"
                " money=money+?",
                cost,
            )
            self.base.execute("COMMIT")
            self.cost = self.cost.plus(cost)
