"""Who is calling: bearer tokens with a tenant and a role, kept as hashes in one private file.

The first use makes an operator's token and leaves it in `admin.token` beside the file (mode 600),
so that one machine works with nothing configured.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .files import atomic_write, locked
from .problems import BadInput, Forbidden, NotFound, Unauthorized

OPERATOR = "operator"
"""The role that sees every tenant; every other role sees its own tenant only."""

OWNER = "owner"
"""The role of a user who looks after the queues that its token names."""

ROLES = ("user", OWNER, OPERATOR)
SYSTEM_TENANT = "system"
NAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")


@dataclass(frozen=True)
class Principal:
    """The caller: a tenant, a role and the token's name for the audit log."""

    tenant: str
    role: str
    name: str
    queues: tuple[str, ...] = ()

    @property
    def is_operator(self) -> bool:
        return self.role == OPERATOR

    def must_be_operator(self) -> None:
        """Raises `Forbidden` for anyone else."""
        if not self.is_operator:
            raise Forbidden("only an operator may do this", do="use an operator's token")

    def may_see(self, tenant: str | None) -> bool:
        """Whether things of `tenant` are visible to this caller."""
        return self.is_operator or tenant == self.tenant

    def scope(self) -> str | None:
        """The tenant to filter by; None for an operator, who sees all."""
        return None if self.is_operator else self.tenant


@dataclass(frozen=True)
class TokenRow:
    """What is stored of a token: never the token itself."""

    name: str
    tenant: str
    role: str
    sha256: str
    expires: float | None
    queues: tuple[str, ...] = ()


class TokenStore:
    """The tokens of one machine, in one file shared by the layers."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.clock = clock
        self._seen: tuple[tuple[int, int], dict[str, TokenRow]] | None = None

    @property
    def admin_file(self) -> Path:
        return self.path.with_name("admin.token")

    def admin_token(self) -> str:
        """The operator's token of this machine, made on first use."""
        with locked(self.path.with_suffix(".lock")):
            if self.admin_file.exists():
                return self.admin_file.read_text().strip()
            token = _new_token()
            rows = [row for row in self._read() if row.name != "admin"]
            self._write([*rows, _row(token, "admin", SYSTEM_TENANT, OPERATOR, None)])
            atomic_write(self.admin_file, token + "\n", mode=0o600)
            return token

    def create(
        self,
        name: str,
        tenant: str,
        role: str = "user",
        *,
        lifetime_s: float | None = None,
        queues: Sequence[str] = (),
    ) -> str:
        """Makes a token and returns it: the only time that it can be read."""
        for field, value in (("name", name), ("tenant", tenant)):
            if not NAME.match(value):
                raise BadInput(f"{value!r} is not a name", field=field, do="use a-z, 0-9 and '-', 63 at most")
        if role not in ROLES:
            raise BadInput(f"{role!r} is not one of {', '.join(ROLES)}", field="role")
        if bool(queues) != (role == OWNER):
            raise BadInput(
                "are what an owner looks after, at least one", field="queues", do="give both or none"
            )
        for queue in queues:
            if not NAME.match(queue):
                raise BadInput(f"{queue!r} is not a name", field="queues")
        if lifetime_s is not None and not 0 < lifetime_s < math.inf:
            raise BadInput("must be more than 0, and end", field="lifetime_s")
        token = _new_token()
        expires = None if lifetime_s is None else self.clock() + lifetime_s
        with locked(self.path.with_suffix(".lock")):
            rows = self._read()
            if any(row.name == name for row in rows):
                raise BadInput(f"there is a token {name!r}", field="name", do="revoke it first")
            self._write([*rows, _row(token, name, tenant, role, expires, queues)])
        return token

    def revoke(self, name: str) -> None:
        with locked(self.path.with_suffix(".lock")):
            rows = self._read()
            rest = [row for row in rows if row.name != name]
            if len(rest) == len(rows):
                raise NotFound(f"no token {name!r}")
            self._write(rest)

    def rows(self) -> list[TokenRow]:
        return self._read()

    def authenticate(self, token: str | None) -> Principal:
        """The caller behind a token; `Unauthorized` when there is none, or it is wrong or old."""
        if not token:
            raise Unauthorized("no token", do="send 'Authorization: Bearer TOKEN'")
        wanted = _hash(token)
        row = self._by_hash().get(wanted)
        if row is None or not hmac.compare_digest(row.sha256, wanted):
            raise Unauthorized("unknown token", do="ask an operator for one")
        if row.expires is not None and row.expires <= self.clock():
            raise Unauthorized("this token has expired", do="ask an operator for a new one")
        return Principal(row.tenant, row.role, row.name, row.queues)

    def _by_hash(self) -> dict[str, TokenRow]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return {}
        # Each write is another file: its number tells two of them apart within one tick of the clock.
        stamp = found.st_mtime_ns, found.st_ino
        if self._seen is None or self._seen[0] != stamp:
            self._seen = (stamp, {row.sha256: row for row in self._read()})
        return self._seen[1]

    def _read(self) -> list[TokenRow]:
        try:
            rows = json.loads(self.path.read_bytes())
            return [TokenRow(**{**row, "queues": tuple(row.get("queues", ()))}) for row in rows]
        except FileNotFoundError:
            return []

    def _write(self, rows: list[TokenRow]) -> None:
        atomic_write(self.path, json.dumps([asdict(row) for row in rows], indent=1), mode=0o600)


def _new_token() -> str:
    return f"ogai-{secrets.token_urlsafe(32)}"


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _row(
    token: str, name: str, tenant: str, role: str, expires: float | None, queues: Sequence[str] = ()
) -> TokenRow:
    return TokenRow(name, tenant, role, _hash(token), expires, tuple(queues))
