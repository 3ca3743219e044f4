"""The frontier: every address a crawl knows, what is to be visited and what came of it.  One SQLite file.

All that one visit changes is one transaction, made after the visit's record is in the WARC file.  A crawl
killed at any point has thus lost at most the visits whose transaction was still to come.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from .traps import Template
from .urls import Address

SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pages (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, url TEXT NOT NULL, origin TEXT NOT NULL,
    kind TEXT NOT NULL, depth INTEGER NOT NULL, hops INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL, outcome TEXT NOT NULL DEFAULT '', tries INTEGER NOT NULL DEFAULT 0,
    crawl INTEGER NOT NULL, status INTEGER, etag TEXT, modified TEXT, digest TEXT, visited TEXT, via TEXT);
CREATE INDEX IF NOT EXISTS pages_next ON pages (origin, state, kind DESC, depth, id);
CREATE TABLE IF NOT EXISTS hosts (
    origin TEXT PRIMARY KEY, pages INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0, last REAL NOT NULL DEFAULT 0,
    robots_at REAL, robots_status INTEGER, robots_body BLOB, robots_why TEXT);
CREATE TABLE IF NOT EXISTS templates (
    shape TEXT PRIMARY KEY, pages INTEGER NOT NULL, stale INTEGER NOT NULL, closed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS contents (
    origin TEXT NOT NULL, mark TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (origin, mark)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS refused (
    reason TEXT PRIMARY KEY, count INTEGER NOT NULL, sample TEXT NOT NULL) WITHOUT ROWID;
"""
SAMPLES = 5
QUEUED, DONE = "queued", "done"
PAGE, SITEMAP = "page", "sitemap"


class Page(NamedTuple):
    """One address to visit, with what is known from the last visit."""

    id: int
    key: str
    url: str
    origin: str
    kind: str
    depth: int
    hops: int
    tries: int
    etag: str | None
    modified: str | None
    digest: str | None
    visited: str | None


class Visit(NamedTuple):
    """What came of a visit."""

    outcome: str
    status: int | None = None
    etag: str | None = None
    modified: str | None = None
    digest: str | None = None
    visited: str | None = None


COLUMNS = ", ".join(Page._fields)


class Frontier:
    """The addresses of one crawl."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.base = sqlite3.connect(file, isolation_level=None)
        self.base.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;" + SCHEMA)

    def close(self) -> None:
        """Ends the work; what was committed stays."""
        self.base.close()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Makes all changes within it one transaction."""
        self.base.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.base.execute("ROLLBACK")
            raise
        self.base.execute("COMMIT")

    def fact(self, name: str, *, default: Any = None) -> Any:
        """A stored value."""
        row = self.base.execute("SELECT value FROM facts WHERE name=?", (name,)).fetchone()
        return default if row is None else json.loads(row[0])

    def set_fact(self, name: str, *, value: Any) -> None:
        """Stores a value."""
        self.base.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def begin(self) -> tuple[int, bool]:
        """The crawl's number, and whether it goes on; a finished one is followed by the next.

        The next crawl visits all known pages again, with what is known of them; budgets begin anew.
        """
        with self.whole():
            number = self.fact("crawl", default=0)
            if number and not self.fact("finished", default=False):
                return number, True
            number += 1
            self.set_fact("crawl", value=number)
            self.set_fact("finished", value=False)
            for table in ("templates", "contents", "refused"):
                self.base.execute(f"DELETE FROM {table}")  # noqa: S608 (our own names)
            self.base.execute("UPDATE pages SET state=?, tries=0, hops=0, crawl=?", (QUEUED, number))
            self.base.execute("UPDATE hosts SET pages=0, bytes=0, seconds=0, robots_at=NULL")
            return number, False

    def finish(self) -> None:
        """Says that there is nothing left to visit."""
        self.set_fact("finished", value=True)

    def add(self, found: Address, *, kind: str, depth: int, hops: int = 0, via: str = "") -> bool:
        """Queues an address unless it is known; says whether it was new."""
        done = self.base.execute(
            "INSERT OR IGNORE INTO pages (key, url, origin, kind, depth, hops, state, crawl, via)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (found.key, found.url, found.origin, kind, depth, hops, QUEUED, self.fact("crawl"), via),
        )
        if done.rowcount:
            self.base.execute("INSERT OR IGNORE INTO hosts (origin) VALUES (?)", (found.origin,))
        return bool(done.rowcount)

    def waiting(self) -> dict[str, int]:
        """How many addresses are queued for each host."""
        rows = self.base.execute(
            "SELECT origin, count(*) FROM pages WHERE state=? GROUP BY origin", (QUEUED,)
        )
        return dict(rows.fetchall())

    def next_pages(self, origin: str, most: int) -> list[Page]:
        """The next addresses of a host: sitemaps first, then by distance from the seeds."""
        rows = self.base.execute(
            f"SELECT {COLUMNS} FROM pages WHERE origin=? AND state=? ORDER BY kind DESC, depth, id LIMIT ?",  # noqa: S608
            (origin, QUEUED, most),
        )
        return [Page(*row) for row in rows]

    def visited(self, page: Page, visit: Visit) -> None:
        """Notes a visit.  What a page said of itself earlier stays where it was not changed."""
        self.base.execute(
            "UPDATE pages SET state=?, outcome=?, status=?, etag=coalesce(?, etag),"
            " modified=coalesce(?, modified), digest=coalesce(?, digest), visited=coalesce(?, visited)"
            " WHERE id=?",
            (DONE, *visit[:2], visit.etag, visit.modified, visit.digest, visit.visited, page.id),
        )

    def forget_validators(self, page: Page) -> None:
        """A page that changed has the new validators or none, not the old ones."""
        self.base.execute("UPDATE pages SET etag=NULL, modified=NULL WHERE id=?", (page.id,))

    def again(self, page: Page) -> None:
        """Notes a try that failed and will be made again."""
        self.base.execute("UPDATE pages SET tries=tries+1 WHERE id=?", (page.id,))

    def spend(self, origin: str, *, pages: int, size: int, seconds: float) -> None:
        """Adds to what a host has cost."""
        self.base.execute(
            "UPDATE hosts SET pages=pages+?, bytes=bytes+?, seconds=seconds+?, last=? WHERE origin=?",
            (pages, size, seconds, time.time(), origin),
        )

    def host(self, origin: str) -> dict[str, Any]:
        """What is known of a host, and what it has cost."""
        cursor = self.base.execute("SELECT * FROM hosts WHERE origin=?", (origin,))
        names = [column[0] for column in cursor.description]
        return dict(zip(names, cursor.fetchone(), strict=True))

    def set_robots(self, origin: str, status: int, body: bytes, why: str) -> None:
        """Keeps a host's robots.txt."""
        self.base.execute(
            "UPDATE hosts SET robots_at=?, robots_status=?, robots_body=?, robots_why=? WHERE origin=?",
            (time.time(), status, body, why, origin),
        )

    def template(self, shape: str) -> Template:
        """What is known of pages of one shape."""
        row = self.base.execute(
            "SELECT pages, stale, closed FROM templates WHERE shape=?", (shape,)
        ).fetchone()
        return Template(*row) if row else Template()

    def set_template(self, shape: str, template: Template) -> None:
        """Keeps it."""
        self.base.execute("INSERT OR REPLACE INTO templates VALUES (?, ?, ?, ?)", (shape, *template))

    def content_of(self, origin: str, mark: str, key: str) -> str:
        """The first page of the host with this content in this crawl: `key` itself if there was none."""
        self.base.execute("INSERT OR IGNORE INTO contents VALUES (?, ?, ?)", (origin, mark, key))
        row = self.base.execute(
            "SELECT key FROM contents WHERE origin=? AND mark=?", (origin, mark)
        ).fetchone()
        return str(row[0])

    def refuse(self, reason: str, url: str) -> None:
        """Counts an address that is not visited, with some samples."""
        row = self.base.execute("SELECT count, sample FROM refused WHERE reason=?", (reason,)).fetchone()
        count, sample = (row[0], json.loads(row[1])) if row else (0, [])
        if url not in sample and len(sample) < SAMPLES:
            sample.append(url)
        self.base.execute(
            "INSERT OR REPLACE INTO refused VALUES (?, ?, ?)", (reason, count + 1, json.dumps(sample))
        )

    def outcomes(self) -> dict[str, int]:
        """How many pages of this crawl came to which end; `queued` are those left."""
        rows = self.base.execute(
            "SELECT CASE state WHEN ? THEN ? ELSE outcome END AS how, count(*) FROM pages"
            " WHERE crawl=? GROUP BY how",
            (QUEUED, QUEUED, self.fact("crawl", default=0)),
        )
        return dict(rows.fetchall())

    def refusals(self) -> dict[str, dict[str, Any]]:
        """Reasons with counts and samples."""
        rows = self.base.execute("SELECT reason, count, sample FROM refused ORDER BY reason")
        return {row[0]: {"count": row[1], "sample": json.loads(row[2])} for row in rows}

    def hosts(self) -> list[dict[str, Any]]:
        """What each host has cost."""
        origins = [row[0] for row in self.base.execute("SELECT origin FROM hosts ORDER BY origin")]
        return [self.host(origin) for origin in origins]
