"""Errors that say what is wrong, why, and what to do; the same text in command line and REST.

REST answers are RFC 9457 problem details (`application/problem+json`).  Exit codes:
1 the operation failed, 2 bad input, 3 something that it needs is not available.
"""

from __future__ import annotations

from typing import Any


class Problem(Exception):  # noqa: N818 (the RFC's word)
    """An error for people: `what` happened, `why`, what to `do`, and the `field` at fault."""

    status = 500
    exit_code = 1

    def __init__(self, what: str, *, why: str = "", do: str = "", field: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.do = do
        self.field = field

    def __str__(self) -> str:
        named = self.field is None or f"{self.field}: " in self.what
        lines = [self.what if named else f"{self.field}: {self.what}"]
        if self.why:
            lines.append(f"why: {self.why}")
        if self.do:
            lines.append(f"try: {self.do}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The RFC 9457 members, with `field` and `try` as extensions; empty ones left out."""
        members = {
            "type": f"urn:ogai:problem:{type(self).__name__.lower()}",
            "title": self.what,
            "status": self.status,
            "detail": self.why,
            "field": self.field,
            "try": self.do,
        }
        return {name: value for name, value in members.items() if value not in ("", None)}


class BadInput(Problem):
    """The caller's words are off: a field is missing, unknown or out of range."""

    status = 422
    exit_code = 2


class Unauthorized(Problem):
    """No token, or one that is wrong or expired."""

    status = 401
    exit_code = 2


class Forbidden(Problem):
    """A known caller who may not do this."""

    status = 403
    exit_code = 2


class NotFound(Problem):
    """There is no such thing, or it belongs to another tenant: the answer is the same."""

    status = 404
    exit_code = 2


class Conflict(Problem):
    """The thing is in a state, or at a version, that does not allow this."""

    status = 409
    exit_code = 2


class Unavailable(Problem):
    """Something this needs (a device, a server, a program) does not answer or is not there."""

    status = 503
    exit_code = 3


class Failed(Problem):
    """The operation was tried and failed."""
