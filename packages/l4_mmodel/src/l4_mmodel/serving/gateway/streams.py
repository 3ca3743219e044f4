"""Server-sent events on their way through: whole events only, parsed only where usage is.  Pure."""

from __future__ import annotations

from typing import Any

import orjson

END = b"\n\n"
DONE = b"data: [DONE]"
USAGE = (b'"usage":{', b'"usage": {')


class EventStream:
    """Takes pieces as the network cuts them, gives whole events; notes the usage chunk."""

    def __init__(self, *, keep_usage: bool) -> None:
        self.keep_usage = keep_usage
        self.usage: dict[str, Any] | None = None
        self.done = False
        self.count = 0
        """Events seen: about the tokens, when a stream is cut before its usage."""
        self._rest = b""

    def add(self, data: bytes) -> bytes:
        """The events that `data` completes, ready to be sent on."""
        if self._rest:
            data = self._rest + data
        if b"\r" in data:  # JSON never holds a bare carriage return: these are line ends
            data = data.replace(b"\r\n", b"\n")
        end = data.rfind(END)
        if end < 0:
            self._rest = data
            return b""
        end += len(END)
        self._rest = data[end:]
        whole = data[:end] if self._rest else data
        self.count += whole.count(END)
        if DONE in whole:
            self.done = True
        if USAGE[0] in whole or USAGE[1] in whole:
            return self._without_usage(whole)
        return whole

    def _without_usage(self, whole: bytes) -> bytes:
        events = whole.split(END)[:-1]
        return b"".join(event + END for event in events if not self._to_drop(event))

    def _to_drop(self, event: bytes) -> bool:
        """Notes usage; whether the event holds nothing else and the client did not ask for it."""
        if USAGE[0] not in event and USAGE[1] not in event:
            return False
        try:
            value = orjson.loads(event.removeprefix(b"data:").strip())
            usage = value["usage"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return False
        if isinstance(usage, dict):
            self.usage = usage
        return not self.keep_usage and not value.get("choices")
