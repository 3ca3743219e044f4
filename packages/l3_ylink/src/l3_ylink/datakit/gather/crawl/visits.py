"""What comes of an answer: the record in the archive, the links that follow, the note in the frontier."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .archive import Archive, Exchange, payload_digest
from .frontier import PAGE, SITEMAP, Frontier, Page, Visit
from .hosts import Host, Hosts, Task
from .links import MOST_SITEMAP, decoded, is_html, page_links, sitemap_links
from .plan import CrawlPlan
from .robots import MOST_HOPS, Robots
from .traps import content_marks
from .urls import Address, address, path_trap

MOST_REDIRECTS = 10
BUSY = {408, 429, 500, 502, 503, 504, 522, 524}
"""Answers that may be others a little later."""

REDIRECTS = {301, 302, 303, 307, 308}
WRONG_TYPE = "other_type"


class Answer(NamedTuple):
    """What a server said."""

    exchange: Exchange
    stopped: str = ""

    def header(self, name: str) -> str:
        """A header's value, or ""."""
        return next((value for key, value in self.exchange.headers if key.lower() == name), "")

    @property
    def text(self) -> bytes:
        """The body without its coding, as much of it as was let in."""
        return decoded(self.exchange.body, self.header("content-encoding"), MOST_SITEMAP)


class Visits:
    """Takes answers and failures of one crawl."""

    def __init__(
        self, plan: CrawlPlan, frontier: Frontier, archive: Archive, tell: Callable[[], None] = lambda: None
    ) -> None:
        self.plan, self.frontier, self.archive, self.tell = plan, frontier, archive, tell
        self.hosts = Hosts(frontier, plan)

    def begin(self) -> None:
        """Queues the seeds."""
        with self.frontier.whole():
            for seed in self.plan.seeds:
                found = address(seed)
                if found is not None:
                    self._add(found, kind=PAGE, depth=0)

    # -- answers

    def answered(self, task: Task, answer: Answer) -> Task | None:
        """Takes an answer; returns what must be fetched at once instead (a robots.txt elsewhere)."""
        host = self.hosts.of(task.origin)
        if task.page is None:
            return self._robots(host, task, answer)
        try:
            self._page(host, task.page, answer)
        finally:
            host.flying.discard(task.page.id)
        self.tell()
        return None

    def _page(self, host: Host, page: Page, answer: Answer) -> None:
        status = answer.exchange.status
        if status in BUSY and self._again(host, page, answer):
            return
        if answer.stopped == WRONG_TYPE:
            with self.frontier.whole():
                self._note(host, page, answer, WRONG_TYPE)
            return
        digest = payload_digest(answer.exchange.body)
        good = 200 <= status < 300
        same = status == 304 or (good and not answer.exchange.cut and digest == page.digest)
        seen = (page.digest, page.visited) if same and page.digest and page.visited else None
        place = self.archive.write(answer.exchange, seen=seen)
        outcome = _outcome(page, status, answer, same=same)
        with self.frontier.whole():
            self.frontier.set_fact("archive", value=place)
            if good:
                self._good(page, answer, outcome, digest, host)
            elif status in REDIRECTS:
                self._note(host, page, answer, self._redirect(page, answer) or outcome)
            else:
                self._note(host, page, answer, outcome)

    def _good(self, page: Page, answer: Answer, outcome: str, digest: str, host: Host) -> None:
        if outcome in ("new", "changed", "cut"):
            self.frontier.forget_validators(page)
        follow = self._learn(page, answer) if page.kind == PAGE else True
        self._note(host, page, answer, outcome, digest=digest if outcome != "cut" else None)
        if not follow:
            return
        if page.kind == SITEMAP:
            pages, sitemaps = sitemap_links(answer.text)
            self._follow(page, page.url, pages, kind=PAGE)
            self._follow(page, page.url, sitemaps, kind=SITEMAP)
        elif is_html(answer.header("content-type"), answer.exchange.body):
            found = page_links(answer.text, page.url, answer.header("content-type"))
            base = address(found.base, page.url)
            self._follow(page, base.url if base else page.url, found.links, kind=PAGE)

    def _learn(self, page: Page, answer: Answer) -> bool:
        """Notes what the page shows; says whether its links are worth following.

        A page that shows what another one of its host showed has that one's links: behind session names and
        endless paths there are only such pages.
        """
        exact, rough = content_marks(answer.text)
        first = self.frontier.content_of(page.origin, exact, page.key)
        fresh = self.frontier.content_of(page.origin, rough, page.key) == page.key
        found = address(page.url)
        if found is not None:
            known = self.frontier.template(found.shape)
            self.frontier.set_template(found.shape, known.after(fresh=fresh))
        return first == page.key

    def _redirect(self, page: Page, answer: Answer) -> str:
        """Queues where a redirect points; says why it does not."""
        found = address(answer.header("location"), page.url)
        if found is None:
            return "bad_redirect"
        if found.key == page.key or page.hops >= MOST_REDIRECTS:
            return "redirect_loop"
        reason = self._reason(found, page.depth)
        if reason:
            self.frontier.refuse(reason, found.url)
            return f"redirect_{reason}"
        self._add(found, kind=page.kind, depth=page.depth, hops=page.hops + 1, via=page.url)
        return ""

    def _follow(self, page: Page, base: str, links: list[str], *, kind: str) -> None:
        for link in links:
            found = address(link, base)
            if found is None:
                continue
            reason = self._reason(found, page.depth + 1)
            if reason:
                self.frontier.refuse(reason, found.url)
            else:
                self._add(found, kind=kind, depth=page.depth + 1, via=page.url)

    def _reason(self, found: Address, depth: int) -> str:
        """Why an address is not visited, or ""."""
        if not self.plan.allows(found.origin):
            return "other_domain"
        if depth > self.plan.depth:
            return "depth"
        return path_trap(found.url) or ("trap" if self.frontier.template(found.shape).closed else "")

    def _add(self, found: Address, *, kind: str, depth: int, hops: int = 0, via: str = "") -> None:
        if self.frontier.add(found, kind=kind, depth=depth, hops=hops, via=via):
            self.hosts.of(found.origin).waiting += 1

    def _note(
        self, host: Host, page: Page, answer: Answer, outcome: str, *, digest: str | None = None
    ) -> None:
        full = digest is not None and outcome in ("new", "changed")
        self.frontier.visited(
            page,
            Visit(
                outcome, answer.exchange.status,
                answer.header("etag") or None, answer.header("last-modified") or None,
                digest if full else None, answer.exchange.date if full else None,
            ),
        )  # fmt: skip
        self._spend(host, 1, len(answer.exchange.body))

    def _spend(self, host: Host, pages: int, size: int) -> None:
        host.pages, host.bytes = host.pages + pages, host.bytes + size
        self.frontier.spend(host.origin, pages=pages, size=size, seconds=host.tick())

    # -- failures

    def failed(self, task: Task, reason: str, *, again: bool = True) -> None:
        """Takes a failure: tried again later, or noted."""
        host = self.hosts.of(task.origin)
        if task.page is None:
            self._no_robots(host, reason, again=again)
            return
        host.flying.discard(task.page.id)
        if not (again and self._again(host, task.page, None)):
            with self.frontier.whole():
                self.frontier.visited(task.page, Visit(reason))
                self._spend(host, 1, 0)
        self.tell()

    def _again(self, host: Host, page: Page, answer: Answer | None) -> bool:
        """Puts a page back for another try, if it has one left, and rests the host meanwhile."""
        if page.tries >= self.plan.retries:
            return False
        asked = _retry_after(answer.header("retry-after")) if answer else 0.0
        host.wait(max(asked, host.delay, 0.5 * 2**page.tries))
        with self.frontier.whole():
            self.frontier.again(page)
            self._spend(host, 0, len(answer.exchange.body) if answer else 0)
        host.waiting += 1
        return True

    # -- robots.txt

    def _robots(self, host: Host, task: Task, answer: Answer) -> Task | None:
        status = answer.exchange.status
        place = self.archive.write(answer.exchange)
        with self.frontier.whole():
            self.frontier.set_fact("archive", value=place)
            self._spend(host, 0, len(answer.exchange.body))
        if status in REDIRECTS:
            found = address(answer.header("location"), task.url)
            if found is not None and task.hops < MOST_HOPS and self.plan.allows(found.origin):
                return Task(task.origin, found.url, None, task.hops + 1)
            inside = found is None or self.plan.allows(found.origin)
            why = (
                "" if inside or found is None else f"its robots.txt is at {found.url}, outside of the domains"
            )
            self._keep_robots(host, 404 if inside else 403, b"", why)  # RFC 9309: as if there was none
            if why:
                host.over = why
            return None
        if status == 429 or status >= 500:
            self._no_robots(
                host, f"robots.txt answered {status}", asked=_retry_after(answer.header("retry-after"))
            )
            return None
        self._keep_robots(host, status, answer.text, "")
        return None

    def _no_robots(self, host: Host, reason: str, *, again: bool = True, asked: float = 0.0) -> None:
        """No robots.txt because the host has trouble: nothing may be visited until it has one."""
        host.robots_flying = False
        if again and host.robots_tries < self.plan.retries:
            host.wait(max(asked, host.delay, 0.5 * 2**host.robots_tries))
            host.robots_tries += 1
            return
        host.over = reason
        self.tell()

    def _keep_robots(self, host: Host, status: int, body: bytes, why: str) -> None:
        host.robots_flying = False
        host.robots = Robots(self.plan.agent, status, body, why)
        with self.frontier.whole():
            self.frontier.set_robots(host.origin, status, body, why)
            if self.plan.sitemaps:
                for link in host.robots.sitemaps():
                    found = address(link, f"{host.origin}/")
                    if found is not None and self.plan.allows(found.origin):
                        self._add(found, kind=SITEMAP, depth=0)

    def counts(self) -> dict[str, Any]:
        """How far the crawl is."""
        return {
            "pages": sum(host.pages for host in self.hosts.ring),
            "bytes": sum(host.bytes for host in self.hosts.ring),
            "waiting": sum(host.waiting for host in self.hosts.ring),
        }


def _outcome(page: Page, status: int, answer: Answer, *, same: bool) -> str:
    if status == 304:
        return "unchanged"
    if 200 <= status < 300:
        if answer.exchange.cut:
            return "cut"
        return "same" if same else ("changed" if page.digest else "new")
    if status in REDIRECTS:
        return "redirect"
    return "gone" if status in (404, 410) else f"http_{status}"


def _retry_after(value: str) -> float:
    """Seconds of a Retry-After header, given as a number or as a date."""
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
