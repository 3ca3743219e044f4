"""Hosts: whose turn it is, and how much of it each may have.  Nothing here opens a connection."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from .frontier import PAGE, Frontier, Page, Visit
from .plan import CrawlPlan
from .robots import GOOD_FOR, Robots
from .urls import address

AT_ONCE = 64
"""Addresses of a host that are read from the frontier together."""

LONGEST_WAIT = 3_600.0
"""Seconds a host may ask us to stay away (Retry-After) before it is left for this crawl."""


class Task(NamedTuple):
    """What to fetch next: a page, or a host's robots.txt (then `page` is None)."""

    origin: str
    url: str
    page: Page | None
    hops: int = 0


class Host:
    """One host during a crawl."""

    def __init__(self, origin: str, frontier: Frontier, plan: CrawlPlan, waiting: int) -> None:
        self.origin, self.frontier, self.plan = origin, frontier, plan
        self.waiting = waiting
        self.flying: set[int] = set()
        self.ready: deque[Page] = deque()
        self.over = ""
        self.robots: Robots | None = None
        self.robots_flying = False
        self.robots_tries = 0
        known = frontier.host(origin)
        self.pages, self.bytes, self.seconds = known["pages"], known["bytes"], known["seconds"]
        if known["robots_at"] and time.time() - known["robots_at"] < GOOD_FOR:
            self.robots = Robots(
                plan.agent, known["robots_status"], known["robots_body"], known["robots_why"]
            )
        since = max(0.0, time.time() - known["last"])
        self.not_before = time.monotonic() + max(0.0, self.delay - since) if known["last"] else 0.0
        self.mark: float | None = None

    @property
    def slot(self) -> str:
        """Whose delay holds: http and https of one host are one."""
        return urlsplit(self.origin).netloc

    @property
    def delay(self) -> float:
        """Seconds between two requests."""
        return self.robots.delay(self.plan.delay) if self.robots else self.plan.delay

    @property
    def connections(self) -> int:
        """Requests at once."""
        return 1 if self.delay else self.plan.connections

    def spent(self) -> str:
        """Which bound of the budget is reached, or ""."""
        budget = self.plan.budget
        if self.pages + len(self.flying) >= budget.pages:
            return "pages"
        if self.bytes >= budget.bytes:
            return "bytes"
        now = time.monotonic()
        return "seconds" if self.seconds + (now - (self.mark or now)) >= budget.seconds else ""

    def is_ready(self) -> bool:
        """Whether a request may be made to it now; notes when there will be no more."""
        if self.over or not self.waiting or self.robots_flying or time.monotonic() < self.not_before:
            return False
        if len(self.flying) >= self.connections:
            return False
        why = self.spent()
        if self.robots is not None and not self.robots.open:
            why = self.robots.why or f"robots.txt answered {self.robots.status}"
        if why and not self.flying:
            self.over = why
        return not why

    def tick(self) -> float:
        """Seconds since the last tick."""
        now = time.monotonic()
        passed = now - self.mark if self.mark is not None else 0.0
        self.mark = now
        self.seconds += passed
        return passed

    def wait(self, seconds: float) -> None:
        """Leaves the host alone for a while; for this crawl if it asks for too long."""
        if seconds > LONGEST_WAIT:
            self.over = f"asked to come back in {seconds:.0f} s"
        self.not_before = max(self.not_before, time.monotonic() + seconds)

    def next_page(self) -> Page | None:
        """Takes the next address."""
        if not self.ready:
            some = self.frontier.next_pages(self.origin, AT_ONCE + len(self.flying))
            self.ready.extend(page for page in some if page.id not in self.flying)
        if not self.ready:
            self.waiting = 0
            return None
        self.waiting -= 1
        return self.ready.popleft()


class Hosts:
    """All hosts of a crawl, in turn."""

    def __init__(self, frontier: Frontier, plan: CrawlPlan) -> None:
        self.frontier, self.plan = frontier, plan
        self.all: dict[str, Host] = {}
        self.ring: deque[Host] = deque()
        for origin, count in frontier.waiting().items():
            self.of(origin).waiting = count

    def of(self, origin: str) -> Host:
        """A host, by its origin."""
        if origin not in self.all:
            self.all[origin] = Host(origin, self.frontier, self.plan, 0)
            self.ring.append(self.all[origin])
        return self.all[origin]

    def pending(self) -> bool:
        """Whether there is anything left that may be visited."""
        return any(host.waiting > 0 and not host.over for host in self.ring)

    def next_task(self) -> Task | None:
        """The next thing to fetch; None while every host is busy, resting or done."""
        for _ in range(len(self.ring)):
            host = self.ring[0]
            self.ring.rotate(-1)
            task = self._task(host)
            if task is not None:
                return task
        return None

    def _task(self, host: Host) -> Task | None:
        if not host.is_ready():
            return None
        if host.mark is None:
            host.tick()
        if host.robots is None:
            host.robots_flying = True
            return Task(host.origin, f"{host.origin}/robots.txt", None)
        page = self._allowed(host, host.robots.allows)
        if page is None:
            return None
        host.flying.add(page.id)
        return Task(host.origin, page.url, page)

    def _reason(self, page: Page, allows: Callable[[str], bool]) -> str:
        found = address(page.url)
        if found is None or not self.plan.allows(found.origin):
            return "other_domain"
        if not allows(page.url):
            return "robots"
        return "trap" if page.kind == PAGE and self.frontier.template(found.shape).closed else ""

    def _allowed(self, host: Host, allows: Callable[[str], bool]) -> Page | None:
        """The next page that rules and traps let pass; the others are noted and left."""
        while True:
            page = host.next_page()
            if page is None:
                return None
            reason = self._reason(page, allows)
            if not reason:
                return page
            with self.frontier.whole():
                self.frontier.visited(page, Visit(reason))
                self.frontier.refuse(reason, page.url)
