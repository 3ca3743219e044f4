"""Work that a page starts and does not wait for: one at a time for each cluster, with its last word."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from l1_podsys._kit.problems import Conflict, Problem


@dataclass
class Work:
    """What is being done for a cluster, and how it went."""

    what: str
    text: str = ""
    running: bool = True
    problem: Problem | None = None


class Background:
    """The work of each cluster."""

    def __init__(self) -> None:
        self.work: dict[str, Work] = {}
        self.lock = threading.Lock()

    def start(self, cluster: str, what: str, do: Callable[[Callable[[str], None]], object]) -> Work:
        """Starts `do(say)` in a thread; `Conflict` while other work of this cluster runs."""
        with self.lock:
            current = self.work.get(cluster)
            if current is not None and current.running:
                raise Conflict(f"{current.what} is at work on cluster {cluster}", do="wait for it")
            work = self.work[cluster] = Work(what)

        def say(text: str) -> None:
            work.text = text

        def run() -> None:
            try:
                do(say)
            except Problem as problem:
                work.problem = problem
            finally:
                work.running = False

        threading.Thread(target=run, name=f"{what} {cluster}", daemon=True).start()
        return work
