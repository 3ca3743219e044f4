"""The parts that scrapy knows: a scheduler, a spider, and a resolver that keeps to public addresses."""

from __future__ import annotations

import http
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import StopDownload
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.internet.interfaces import IHostnameResolver, IResolutionReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from .archive import Exchange
from .hosts import Task
from .plan import CrawlPlan, is_public
from .visits import WRONG_TYPE, Answer, Visits

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
REASONS = {
    "CannotResolveHostError": "no_address",
    "DownloadTimeoutError": "timeout",
    "DownloadConnectionRefusedError": "connection_refused",
}
LEFT_OUT = {"transfer-encoding", "connection", "keep-alive", "proxy-connection"}
"""Headers about the connection: bodies are stored without chunks."""

NOT_PUBLIC: set[str] = set()
"""Names that the resolver refused in this process."""


class SitesSpider(Spider):
    """Turns tasks into requests and answers into visits."""

    name = "sites"

    def __init__(self, visits: Visits, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.visits = visits
        self.plan: CrawlPlan = visits.plan
        self.fault: BaseException | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> SitesSpider:
        """Made by scrapy; listens to headers and bytes as they come."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.headers_came, signals.headers_received)
        crawler.signals.connect(spider.bytes_came, signals.bytes_received)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Nothing: the scheduler has the seeds."""
        return
        yield

    def request(self, task: Task) -> Request:
        """The request for a task, with what is known of the page from an earlier visit."""
        host = self.visits.hosts.of(task.origin)
        headers = {"User-Agent": self.plan.user_agent, "Accept": ACCEPT, "Accept-Encoding": "gzip"}
        if task.page is not None and task.page.digest and task.page.visited:
            headers |= {"If-None-Match": task.page.etag} if task.page.etag else {}
            headers |= {"If-Modified-Since": task.page.modified} if task.page.modified else {}
        self._set_pace(host.slot, host.delay, host.connections)
        meta = {
            "task": task, "download_slot": host.slot, "download_timeout": self.plan.timeout,
            "handle_httpstatus_all": True, "came": 0, "stopped": "",
        }  # fmt: skip
        return Request(
            task.url, headers=headers, meta=meta, callback=self.came, errback=self.failed, dont_filter=True
        )

    def _set_pace(self, slot: str, delay: float, connections: int) -> None:
        """Sets the delay of a host, for the slot that exists and for one that is made later."""
        downloader = self.crawler.engine.downloader
        others = [host.delay for host in self.visits.hosts.ring if host.slot == slot and host.robots]
        delay = max([delay, *others])
        connections = 1 if delay else connections
        downloader.per_slot_settings[slot] = {"delay": delay, "concurrency": connections, "jitter": 0.0}
        if slot in downloader.slots:
            downloader.slots[slot].delay = delay
            downloader.slots[slot].concurrency = connections

    def headers_came(self, headers: Any, request: Request) -> None:
        """Leaves a body that is of no type we take."""
        kind = (headers.get("Content-Type") or b"").decode("latin-1").strip().lower()
        wanted = request.meta["task"].page is None or not kind or kind.startswith(tuple(self.plan.types))
        if not wanted:
            request.meta["stopped"] = WRONG_TYPE
            raise StopDownload(fail=False)

    def bytes_came(self, data: bytes, request: Request) -> None:
        """Cuts a body that grows too long."""
        request.meta["came"] += len(data)
        if request.meta["came"] > self.plan.longest:
            request.meta["stopped"] = "length"
            raise StopDownload(fail=False)

    def came(self, response: Response) -> None:
        """Takes an answer."""
        request = response.request
        assert request is not None
        stopped = request.meta["stopped"]
        answer = Answer(_exchange(request, response, self.plan.longest, stopped), stopped)
        self._guarded(lambda: self._answered(request.meta["task"], answer))

    def _answered(self, task: Task, answer: Answer) -> None:
        instead = self.visits.answered(task, answer)
        if instead is not None:
            self.crawler.engine.crawl(self.request(instead))

    def failed(self, failure: Failure) -> None:
        """Takes a failure."""
        request: Request = failure.request  # type: ignore[attr-defined]
        reason = REASONS.get(type(failure.value).__name__, "failed")
        private = reason == "no_address" and urlsplit(request.url).hostname in NOT_PUBLIC
        reason = "private_address" if private else reason
        self._guarded(lambda: self.visits.failed(request.meta["task"], reason, again=not private))

    def _guarded(self, work: Any) -> None:
        """A fault of our own, a full disk among them, ends the crawl: it must not go on without its notes."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 (told by the program)
            self.fault = self.fault or error
            deferred_from_coro(self.crawler.stop_async())


class Turns(BaseScheduler):
    """The scheduler: asks the hosts whose turn it is."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.at_once: list[Request] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Turns:
        """Made by scrapy."""
        return cls(crawler)

    @property
    def _spider(self) -> SitesSpider:
        spider = self.crawler.spider
        assert isinstance(spider, SitesSpider)
        return spider

    def has_pending_requests(self) -> bool:
        """Whether there is anything left to do, now or later."""
        return bool(self.at_once) or (self._spider.fault is None and self._spider.visits.hosts.pending())

    def enqueue_request(self, request: Request) -> bool:
        """Takes what must be fetched before anything else of its host."""
        self.at_once.append(request)
        return True

    def next_request(self) -> Request | None:
        """The next request, or None while all hosts rest."""
        if self.at_once:
            return self.at_once.pop(0)
        if self._spider.fault is not None:
            return None
        task = self._spider.visits.hosts.next_task()
        return None if task is None else self._spider.request(task)


@implementer(IResolutionReceiver)
class _PublicOnly:
    """Lets only public addresses through to who asked for them."""

    def __init__(self, receiver: Any, name: str) -> None:
        self.receiver, self.name = receiver, name

    def resolutionBegan(self, resolution: Any) -> None:  # noqa: N802 (twisted's name)
        self.receiver.resolutionBegan(resolution)

    def addressResolved(self, address: Any) -> None:  # noqa: N802
        if is_public(address.host):
            self.receiver.addressResolved(address)
        else:
            NOT_PUBLIC.add(self.name)

    def resolutionComplete(self) -> None:  # noqa: N802
        self.receiver.resolutionComplete()


@implementer(IHostnameResolver)
class PublicResolver:
    """The reactor's own resolver behind a check of every address, names that are addresses included.

    The check is on the address that is then connected to: a name cannot change its mind in between.
    """

    def __init__(self, reactor: Any) -> None:
        self.reactor, self.inner = reactor, reactor.nameResolver

    @classmethod
    def from_crawler(cls, crawler: Any, reactor: Any) -> PublicResolver:  # noqa: ARG003
        """Made by scrapy."""
        return cls(reactor)

    def install_on_reactor(self) -> None:
        """Puts itself in the place of the reactor's resolver."""
        self.reactor.installNameResolver(self)

    def resolveHostName(self, receiver: Any, name: str, *more: Any, **named: Any) -> Any:  # noqa: N802
        """Resolves a name."""
        return self.inner.resolveHostName(_PublicOnly(receiver, name), name, *more, **named)


def _exchange(request: Request, response: Response, longest: int, stopped: str) -> Exchange:
    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in response.headers.items()
        for value in values
        if name.decode("latin-1").lower() not in LEFT_OUT
    ]
    asked = [
        ("Host", request.url.partition("://")[2].partition("/")[0]),
        *(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, values in request.headers.items()
            for value in values
        ),
    ]
    known = response.status in {status.value for status in http.HTTPStatus}
    return Exchange(
        url=request.url,
        asked=asked,
        status=response.status,
        phrase=http.HTTPStatus(response.status).phrase if known else "Unknown",
        headers=headers,
        body=response.body[:longest],
        date=datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        address=str(response.ip_address or ""),
        cut="length" if stopped == "length" else "",
    )


def settings(plan: CrawlPlan, log_file: str) -> dict[str, Any]:
    """Scrapy with nothing switched on that is not used here."""
    return {
        "SCHEDULER": Turns,
        "CONCURRENT_REQUESTS": plan.hosts_at_once * plan.connections,
        "CONCURRENT_REQUESTS_PER_DOMAIN": plan.connections,
        "DOWNLOAD_DELAY": plan.delay,
        "DOWNLOAD_DELAY_JITTER": 0.0,
        "DOWNLOAD_TIMEOUT": plan.timeout,
        "DOWNLOAD_MAXSIZE": 0,
        "DOWNLOAD_WARNSIZE": 0,
        "DOWNLOAD_FAIL_ON_DATALOSS": True,
        "DOWNLOAD_VERIFY_CERTIFICATES": plan.verify,
        "DOWNLOADER_MIDDLEWARES_BASE": {},
        "SPIDER_MIDDLEWARES_BASE": {},
        "EXTENSIONS_BASE": {},
        "DOWNLOAD_HANDLERS_BASE": {
            "http": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler",
            "https": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler",
        },
        "TELNETCONSOLE_ENABLED": False,
        "COOKIES_ENABLED": False,
        "LOG_FILE": log_file,
        "LOG_LEVEL": "WARNING",
        **({} if plan.private else {"TWISTED_DNS_RESOLVER": PublicResolver}),
    }
