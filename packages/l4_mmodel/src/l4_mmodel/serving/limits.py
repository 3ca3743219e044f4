"""Limits of a key over a sliding minute: requests, tokens, requests at once.  Pure: time is given.

Tokens are reserved before a request is sent on (prompt estimate + most that it may generate) and
settled to what it took, so that parallel requests cannot spend more than there is.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

WINDOW_S = 60.0


@dataclass
class Spent:
    """An entry of the window: when, and how much (changed when it is settled)."""

    at: float
    amount: int


@dataclass
class Window:
    """Amounts within the last minute, never more than `limit` in all."""

    limit: int
    entries: deque[Spent] = field(default_factory=deque)
    total: int = 0

    def expire(self, now: float) -> None:
        """Forgets what is a minute old."""
        while self.entries and self.entries[0].at <= now - WINDOW_S:
            self.total -= self.entries.popleft().amount

    def wait_s(self, amount: int, now: float) -> float:
        """Seconds until `amount` fits; 0 when it does now; infinite when it never will."""
        self.expire(now)
        if amount > self.limit:
            return float("inf")
        over = self.total + amount - self.limit
        if over <= 0:
            return 0.0
        for entry in self.entries:
            over -= entry.amount
            if over <= 0:
                return entry.at + WINDOW_S - now
        return WINDOW_S

    def take(self, amount: int, now: float) -> Spent:
        """Enters an amount that fits."""
        entry = Spent(now, amount)
        self.entries.append(entry)
        self.total += amount
        return entry

    def settle(self, entry: Spent, amount: int, now: float) -> None:
        """Replaces a reserved amount by the real one."""
        self.expire(now)
        if entry.at > now - WINDOW_S:
            self.total += amount - entry.amount
        entry.amount = amount


@dataclass(frozen=True)
class Refused:
    """Which limit was hit, what it is, and after how long the request would fit."""

    limit: str
    value: int
    retry_s: float


@dataclass
class Held:
    """A request that was let in."""

    tokens: Spent | None


class Limiter:
    """The limits of one key."""

    def __init__(self, requests: int | None, tokens: int | None, parallel: int | None) -> None:
        self.requests = Window(requests) if requests is not None else None
        self.tokens = Window(tokens) if tokens is not None else None
        self.parallel = parallel
        self.open = 0

    def enter(self, tokens: int, now: float) -> Held | Refused:
        """Lets a request in that may take `tokens`, or says what forbids it; nothing is taken then."""
        if self.parallel is not None and self.open >= self.parallel:
            return Refused("requests at once", self.parallel, 1.0)
        wait = self.requests.wait_s(1, now) if self.requests else 0.0
        if wait and self.requests:
            return Refused("requests per minute", self.requests.limit, wait)
        wait = self.tokens.wait_s(tokens, now) if self.tokens else 0.0
        if wait and self.tokens:
            return Refused("tokens per minute", self.tokens.limit, wait)
        if self.requests:
            self.requests.take(1, now)
        self.open += 1
        return Held(self.tokens.take(tokens, now) if self.tokens else None)

    def leave(self, held: Held, tokens: int, now: float) -> None:
        """Ends a request that took `tokens`."""
        self.open -= 1
        if self.tokens and held.tokens:
            self.tokens.settle(held.tokens, tokens, now)
