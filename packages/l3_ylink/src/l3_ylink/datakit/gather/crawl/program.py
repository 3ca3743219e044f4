"""A crawl's own process: `python -m l3_ylink.datakit.gather.crawl.program OUT`.

It reads the plan that lies in the folder, tells its progress in JSON lines, and ends with a summary or a
problem.  (Scrapy's reactor runs once in a process, so that each crawl has one of its own.)
"""

from __future__ import annotations

import errno
import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from l3_ylink import __version__
from l3_ylink._kit.problems import Failed, Problem

from .archive import Archive
from .frontier import Frontier
from .plan import FRONTIER, LOG, PLAN, STATE, CrawlPlan
from .summary import summary
from .visits import Visits

TELL_EVERY = 0.5


def say(line: dict[str, Any]) -> None:
    """Tells the parent."""
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def crawl(out: Path) -> dict[str, Any]:
    """Crawls until nothing is left, the budgets are spent, or a signal comes; returns the summary."""
    from scrapy.crawler import CrawlerProcess

    from .spider import SitesSpider, settings

    state = out / STATE
    plan = CrawlPlan.model_validate_json((state / PLAN).read_bytes())
    frontier = Frontier(state / FRONTIER)
    number, goes_on = frontier.begin()
    info = {
        "software": f"ylink/{__version__}", "format": "WARC File Format 1.1", "robots": "obey",
        "http-header-user-agent": plan.user_agent, "operator": plan.contact,
    }  # fmt: skip
    archive = Archive(out, f"crawl-{number:04d}", info, plan.warc_bytes)
    place = frontier.fact("archive") if goes_on else None
    archive.go_on(tuple(place) if place else None)
    frontier.set_fact("archive", value=place)
    last = 0.0

    def tell() -> None:
        nonlocal last
        if time.monotonic() - last >= TELL_EVERY:
            last = time.monotonic()
            say({"progress": visits.counts()})

    visits = Visits(plan, frontier, archive, tell)
    visits.begin()
    process = CrawlerProcess(settings(plan, str(state / LOG)))
    crawler = process.create_crawler(SitesSpider)
    process.crawl(crawler, visits=visits)
    process.start()
    fault = getattr(crawler.spider, "fault", None)
    if fault is not None:
        raise fault
    archive.finish()
    if not visits.hosts.pending():
        frontier.finish()
    return summary(plan, frontier, visits.hosts)


def main() -> int:
    """Runs; a problem is the last line, and its exit code the program's."""
    out = Path(sys.argv[1])
    try:
        say({"summary": crawl(out)})
        return 0
    except Problem as problem:
        say({"problem": problem.as_json(), "exit_code": problem.exit_code})
        return problem.exit_code
    except (OSError, sqlite3.OperationalError) as error:
        full = getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(error)
        what = "no space left while writing the crawl" if full else f"cannot write to {out}: {error}"
        failed = Failed(what, do="free some space and run the same command again")
        say({"problem": failed.as_json(), "exit_code": failed.exit_code})
        return failed.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
