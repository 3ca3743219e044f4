"""Times for people and from them: RFC 3339 outside, seconds since the epoch inside."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(seconds: float | None) -> str | None:
    """RFC 3339 of seconds since the epoch."""
    if seconds is None:
        return None
    return time_of(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of(seconds: float) -> datetime:
    """The time of seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC)


def seconds_of(time: datetime) -> float:
    """Seconds since the epoch; a time without a zone is UTC."""
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()
