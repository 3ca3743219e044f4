"""One broker address in the two spellings that its clients read."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote, urlsplit

from l2_aistation._kit.problems import BadInput

SOCKET = "redis+socket://"


def of_socket(path: str) -> str:
    """The URL of a Unix socket, as Celery reads it."""
    return f"{SOCKET}{path}"


def of_tcp(host: str, port: int, password: str) -> str:
    """The URL of a TCP address."""
    return f"redis://:{quote(password, safe='')}@{host}:{port}/0"


def client(url: str, **options: Any) -> Any:
    """A `redis.Redis` for the URL; it connects when it is used, and its callers try again by themselves."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    once = Retry(NoBackoff(), 0)
    return redis.Redis.from_url(for_redis(url), decode_responses=True, retry=once, **options)


def for_redis(url: str) -> str:
    """The URL as the redis client reads it; a `BadInput` where it is no Redis URL."""
    if url.startswith(SOCKET):
        return f"unix://{url.removeprefix(SOCKET)}"
    if urlsplit(url).scheme in ("redis", "rediss", "unix"):
        return url
    raise BadInput(
        "is not a Redis URL",
        field="broker_url",
        do="give redis://HOST:PORT/0, with :PASSWORD@ before the host, or redis+socket:///PATH",
    )


def for_celery(url: str) -> str:
    """The URL as Celery reads it."""
    return f"{SOCKET}{url.removeprefix('unix://')}" if url.startswith("unix://") else url


def listening(text: str, default_port: int) -> tuple[str, int]:
    """`ADDRESS` or `ADDRESS:PORT` as a pair."""
    host, _colon, port = text.rpartition(":") if ":" in text else (text, "", str(default_port))
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadInput(f"{text!r} is not ADDRESS or ADDRESS:PORT", field="broker_listen")
    if host in ("0.0.0.0", "*"):  # noqa: S104 (refused here)
        raise BadInput(
            "listening on every address would offer the broker to every network",
            field="broker_listen",
            do="give the one address that the agents reach",
        )
    return unquote(host), int(port)
