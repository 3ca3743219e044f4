"""Asks all hosts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from l1_podsys._kit.problems import Problem
from l1_podsys.core.facts import Facts, parse_facts
from l1_podsys.ports import Transport
from l1_podsys.probe import program

T = TypeVar("T")


def on_all(
    hosts: Iterable[str],
    work: Callable[[str], T],
    *,
    parallel: int,
    done: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, T], dict[str, Problem]]:
    """Runs `work` for each host in threads: the answers, and the problems of those that gave none."""
    answers: dict[str, T] = {}
    problems: dict[str, Problem] = {}

    def one(host: str) -> None:
        try:
            answers[host] = work(host)
        except Problem as problem:
            problems[host] = problem
        done(host)

    hosts = list(hosts)
    with ThreadPoolExecutor(max(1, min(parallel, len(hosts)))) as pool:
        for outcome in [pool.submit(one, host) for host in hosts]:
            outcome.result()
    return answers, problems


def gather(
    transport: Transport,
    requests: dict[str, dict[str, Any]],
    *,
    parallel: int,
    timeout_s: float,
    done: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Facts], dict[str, Problem]]:
    """The facts of all hosts: one probe run each."""

    def ask(host: str) -> Facts:
        return parse_facts(transport.run(host, program("facts", requests[host]), timeout_s))

    return on_all(requests, ask, parallel=parallel, done=done)
