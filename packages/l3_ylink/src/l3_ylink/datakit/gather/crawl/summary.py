"""What a crawl came to."""

from __future__ import annotations

from typing import Any

from .frontier import Frontier
from .hosts import Hosts
from .plan import CrawlPlan


def summary(plan: CrawlPlan, frontier: Frontier, hosts: Hosts) -> dict[str, Any]:
    """Pages by outcome, refusals by reason, and each host with its pace, its cost and why it was left."""
    rows = []
    for known in frontier.hosts():
        host = hosts.of(known["origin"])
        rows.append(
            {
                "host": host.origin,
                "pages": host.pages,
                "bytes": host.bytes,
                "seconds": round(host.seconds, 1),
                "delay": host.delay,
                "delay_of": "robots.txt" if host.delay > plan.delay else "own",
                "robots": host.robots.status if host.robots else None,
                "left_for": host.over or None,
                "waiting": host.waiting,
            }
        )
    return {
        "crawl": frontier.fact("crawl"),
        "finished": frontier.fact("finished"),
        "outcomes": frontier.outcomes(),
        "refused": frontier.refusals(),
        "hosts": rows,
    }
