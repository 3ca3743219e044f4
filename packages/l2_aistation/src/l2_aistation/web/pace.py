"""How often a caller may ask for what costs much: a bucket of tokens each (RFC 6585: 429)."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil

from fastapi import Request
from fastapi.responses import Response

from l2_aistation._kit.problems import Problem
from l2_aistation._kit.web import problem_response

MOST_KNOWN = 10_000


class TooMany(Problem):
    """The caller asks too often; `retry_s` says when it may again."""

    status = 429
    exit_code = 3

    def __init__(self, what: str, retry_s: float) -> None:
        self.retry_s = max(ceil(retry_s), 1)
        super().__init__(what, do=f"ask again in {self.retry_s} s")


class Pace:
    """Lets each caller ask `burst` times at once and `per_s` times a second in the long run."""

    def __init__(self, per_s: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_s, self.burst, self.clock = per_s, burst, clock
        self.buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> None:
        """Takes a token; `TooMany` where there is none."""
        now = self.clock()
        left, at = self.buckets.pop(caller, (float(self.burst), now))
        left = min(left + (now - at) * self.per_s, float(self.burst))
        if left >= 1:
            self.buckets[caller] = left - 1, now
        else:
            self.buckets[caller] = left, now
            raise TooMany("asked too often", (1 - left) / self.per_s)
        if len(self.buckets) > MOST_KNOWN:
            del self.buckets[next(iter(self.buckets))]  # the one that was not seen for longest


async def too_many(request: Request, problem: Exception) -> Response:
    """The answer to a caller that has to wait, with Retry-After."""
    assert isinstance(problem, TooMany)
    response = problem_response(request, problem)
    response.headers["Retry-After"] = str(problem.retry_s)
    return response
