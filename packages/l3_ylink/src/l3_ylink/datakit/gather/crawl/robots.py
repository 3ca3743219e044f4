"""robots.txt by RFC 9309, with the delays that sites ask for (Crawl-delay, Request-rate)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from protego import Protego

MOST_BYTES = 512_000
"""What of a robots.txt is read (the RFC asks for 500 KiB at least)."""

MOST_HOPS = 5
GOOD_FOR = 86_400.0
"""Seconds for which a robots.txt holds before it is asked for again."""


@dataclass(frozen=True)
class Robots:
    """What a host asks of us.

    Status 2xx: its rules hold.  4xx: there are none, all is allowed.  Anything else, 429 and a host that
    does not answer among them: nothing is allowed for now.
    """

    agent: str
    status: int
    body: bytes = b""
    why: str = ""

    @cached_property
    def _rules(self) -> Protego:
        return Protego.parse(self.body[:MOST_BYTES].decode("utf-8-sig", "replace") if self.found else "")

    @property
    def found(self) -> bool:
        """Whether there are rules."""
        return 200 <= self.status < 300

    @property
    def open(self) -> bool:
        """Whether anything may be visited at all."""
        return self.found or (400 <= self.status < 500 and self.status != 429)

    def allows(self, url: str) -> bool:
        """Whether the rules let us visit an address."""
        return self.open and (not self.found or bool(self._rules.can_fetch(url, self.agent)))

    def delay(self, own: float) -> float:
        """Seconds between two requests: the longest of our own, Crawl-delay and Request-rate."""
        if not self.found:
            return own
        asked = float(self._rules.crawl_delay(self.agent) or 0)
        rate = self._rules.request_rate(self.agent)
        spread = rate.seconds / rate.requests if rate is not None and rate.requests else 0.0
        return max(own, asked, spread)

    def sitemaps(self) -> list[str]:
        """The sitemaps that it names."""
        return list(self._rules.sitemaps) if self.found else []
