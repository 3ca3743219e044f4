"""Limits: nothing gets in above them, at any time, in any order."""

from __future__ import annotations

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from l4_mmodel.serving.limits import WINDOW_S, Held, Limiter, Refused


def entered(limiter: Limiter, tokens: int, now: float) -> Held:
    found = limiter.enter(tokens, now)
    assert isinstance(found, Held)
    return found


def refused(limiter: Limiter, tokens: int, now: float) -> Refused:
    found = limiter.enter(tokens, now)
    assert isinstance(found, Refused)
    return found


def test_the_third_request_of_two_a_minute_waits_for_the_first_to_age() -> None:
    limiter = Limiter(2, None, None)
    entered(limiter, 0, 100.0)
    entered(limiter, 0, 110.0)
    late = refused(limiter, 0, 130.0)
    assert (late.limit, late.value, late.retry_s) == ("requests per minute", 2, 30.0)
    entered(limiter, 0, 130.0 + late.retry_s)


def test_tokens_are_reserved_first_and_settled_after() -> None:
    limiter = Limiter(None, 100, None)
    first = entered(limiter, 80, 0.0)
    assert refused(limiter, 30, 1.0).limit == "tokens per minute"
    limiter.leave(first, 10, 2.0)
    entered(limiter, 90, 3.0)
    assert refused(limiter, 1, 4.0).retry_s == pytest.approx(56)


def test_what_can_never_fit_is_told_apart() -> None:
    assert refused(Limiter(None, 100, None), 101, 0.0).retry_s == float("inf")


def test_requests_at_once() -> None:
    limiter = Limiter(None, None, 1)
    first = entered(limiter, 0, 0.0)
    assert refused(limiter, 0, 0.0).limit == "requests at once"
    limiter.leave(first, 0, 0.1)
    entered(limiter, 0, 0.2)


def test_a_refused_request_takes_nothing() -> None:
    limiter = Limiter(5, 100, None)
    entered(limiter, 100, 0.0)
    for _ in range(10):
        refused(limiter, 1, 1.0)
    assert limiter.requests is not None
    assert limiter.requests.total == 1


class Machine(RuleBasedStateMachine):
    """Requests come, end, time goes on: within any minute, what was let in stays below the limits."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter = Limiter(4, 100, 3)
        self.now = 0.0
        self.open: list[Held] = []
        self.began: list[float] = []
        self.cost: list[list[float]] = []  # [when, amount]

    @rule(tokens=st.integers(0, 120))
    def ask(self, tokens: int) -> None:
        found = self.limiter.enter(tokens, self.now)
        if isinstance(found, Held):
            self.open.append(found)
            self.began.append(self.now)
            self.cost.append([self.now, tokens])
        elif found.retry_s != float("inf") and found.limit != "requests at once":
            at = self.now + found.retry_s + 1e-6  # the sum is rounded
            limiter = self.limiter
            window = limiter.requests if found.limit == "requests per minute" else limiter.tokens
            assert window is not None
            amount = 1 if found.limit == "requests per minute" else tokens
            still = sum(entry.amount for entry in window.entries if entry.at > at - WINDOW_S)
            assert still + amount <= window.limit  # by then it fits

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.open) - 1))
        held = self.open.pop(number)
        assert held.tokens is not None
        real = data.draw(st.integers(0, held.tokens.amount))
        entry = next(row for row in self.cost if row[0] == held.tokens.at and row[1] == held.tokens.amount)
        entry[1] = real
        self.limiter.leave(held, real, self.now)

    @rule(seconds=st.floats(0, 80))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def within_limits(self) -> None:
        assert len(self.open) <= 3
        assert sum(at > self.now - WINDOW_S for at in self.began) <= 4
        assert sum(amount for at, amount in self.cost if at > self.now - WINDOW_S) <= 100


Machine.TestCase.settings = hypothesis_settings(max_examples=40, stateful_step_count=30, deadline=None)
TestLimits = Machine.TestCase
