"""Logging of the applications: structured lines to stderr, with secrets taken out."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any

SECRET_NAMES = re.compile(r"pass(word|wd)?$|secret|token$|api_?key$|authorization|credential", re.IGNORECASE)
SECRET_VALUES = re.compile(r"(ogai|sk)-[A-Za-z0-9_-]{16,}|(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
HIDDEN = "***"


def redact(text: str) -> str:
    """`text` with tokens and the user:password part of URLs replaced by `***`."""
    return SECRET_VALUES.sub(HIDDEN, text)


def _redact_event(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    for name, value in event.items():
        if SECRET_NAMES.search(name):
            event[name] = HIDDEN
        elif isinstance(value, str):
            event[name] = redact(value)
    return event


def set_up(*, level: str = "INFO", as_json: bool = False) -> None:
    """Sends the standard library's and structlog's records to stderr, redacted."""
    import structlog  # only applications log; reading settings must stay cheap

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_event,
    ]
    last = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=False)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
