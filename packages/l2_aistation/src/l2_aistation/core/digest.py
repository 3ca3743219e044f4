"""The digest of what a cycle decided."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from .cycle import Session
from .pool import Pool
from .records import claim_record, placement_record, promise_record
from .statement import Booking, ClaimEnded, ClaimMade, Entry, Eviction


def digest(session: Session, entries: Sequence[Entry]) -> str:
    """SHA-256 of all that a cycle decided: starts, evictions, claims, promises; not of what it told whom."""
    pool = session.world.pool
    promises = [
        [name, None if item is None else promise_record(pool, item)]
        for name, item in sorted(session.promised.items())
    ]
    text = json.dumps([[_words(pool, entry) for entry in entries], promises], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _words(pool: Pool, entry: Entry) -> list[Any]:
    if isinstance(entry, Booking):
        return ["booking", entry.job.id, entry.taken, placement_record(pool, entry.placement)]
    if isinstance(entry, Eviction):
        return ["eviction", entry.job.id, entry.claimant.id, entry.action, entry.lost_s, entry.at]
    if isinstance(entry, ClaimMade):
        return ["claim", entry.job.id, claim_record(pool, entry.claim)]
    assert isinstance(entry, ClaimEnded)
    return ["claim ended", entry.job.id, entry.why]
