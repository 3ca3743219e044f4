"""Keys of the gateway: kept as hashes, with scopes, models, limits and an end."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from l4_mmodel._kit.problems import BadInput, Conflict, NotFound
from l4_mmodel._kit.tokens import NAME
from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

PREFIX = "sk-ogai-"
CHAT = "chat"
COMPLETIONS = "completions"
MODELS = "models"
SCOPES = (CHAT, COMPLETIONS, MODELS)


@dataclass(frozen=True)
class Key:
    """What is stored of a key: never the key itself.  `models` None means all of the tenant's."""

    id: int
    tenant: str
    name: str
    sha256: str
    hint: str
    scopes: tuple[str, ...]
    models: tuple[str, ...] | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    parallel: int | None
    created_at: float
    created_by: str
    expires_at: float | None
    revoked_at: float | None

    def usable(self, now: float) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def may_use(self, model: str) -> bool:
        """Whether the key's list of models has this one."""
        return self.models is None or model in self.models

    def as_json(self) -> dict[str, Any]:
        """What may be shown."""
        hidden = {"id", "sha256"}
        return {name: value for name, value in vars(self).items() if name not in hidden}


@dataclass(frozen=True)
class NewKey:
    """A key that was just made; `secret` is what clients send, and is stored nowhere."""

    name: str
    tenant: str
    secret: str

    def __repr__(self) -> str:
        return f"NewKey(name={self.name!r}, tenant={self.tenant!r})"


class Keys:
    """The keys of one tenant, or with tenant None of all."""

    def __init__(self, store: Store, tenant: str | None, by: str) -> None:
        self.store = store
        self.tenant = tenant
        self.by = by

    def create(
        self,
        name: str,
        *,
        tenant: str | None = None,
        scopes: Sequence[str] = SCOPES,
        models: Sequence[str] | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        parallel: int | None = None,
        lifetime_s: float | None = None,
    ) -> NewKey:
        """Makes a key; its `secret` can be read only now."""
        tenant = self._tenant(tenant)
        limits = {
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
            "parallel": parallel,
        }
        _check(name, scopes, {**limits, "lifetime_s": lifetime_s})
        now = self.store.clock()
        key = PREFIX + secrets.token_urlsafe(32)
        row = {
            "tenant": tenant, "name": name, "sha256": hash_of(key), "hint": f"…{key[-4:]}",
            "scopes": list(scopes), "models": None if models is None else list(models), **limits,
            "created_at": now, "created_by": self.by,
            "expires_at": None if lifetime_s is None else now + lifetime_s,
        }  # fmt: skip
        try:
            with self.store.change() as connection:
                connection.execute(insert(tables.keys), row)
                self.store.audit(
                    connection, tenant=tenant, by=self.by, action="key-create", target=name,
                    scopes=list(scopes), models=row["models"],
                )  # fmt: skip
                self.store.bump(connection)
        except IntegrityError as error:
            raise Conflict(f"there is a key {name!r}", do="choose another name") from error
        return NewKey(name, tenant, key)

    def revoke(self, name: str) -> None:
        """Ends a key at once; gateways notice within a quarter of a second."""
        table = tables.keys
        where = and_(table.c.name == name, table.c.revoked_at.is_(None))
        if self.tenant is not None:
            where = and_(where, table.c.tenant == self.tenant)
        with self.store.change() as connection:
            found = connection.execute(select(table.c.tenant).where(where)).scalar()
            if found is None:
                raise NotFound(f"no key {name!r}", do="see `mmodel keys list`")
            connection.execute(
                update(table).where(where, table.c.tenant == found).values(revoked_at=self.store.clock())
            )
            self.store.audit(connection, tenant=found, by=self.by, action="key-revoke", target=name)
            self.store.bump(connection)

    def all(self) -> list[Key]:
        """Every key, revoked and expired ones too."""
        query = select(tables.keys).order_by(tables.keys.c.id)
        if self.tenant is not None:
            query = query.where(tables.keys.c.tenant == self.tenant)
        with self.store.read() as connection:
            return [_key(row) for row in connection.execute(query)]

    def _tenant(self, tenant: str | None) -> str:
        wanted = tenant or self.tenant
        if wanted is None or not NAME.match(wanted):
            raise BadInput(f"{wanted!r} is not a tenant", field="tenant", do="name the key's tenant")
        if self.tenant is not None and wanted != self.tenant:
            raise NotFound(f"no tenant {wanted!r}")
        return wanted


def hash_of(key: str) -> str:
    """What is stored and looked up.  A key has 256 random bits, so a plain hash cannot be searched."""
    return hashlib.sha256(key.encode()).hexdigest()


def _key(row: Row[Any]) -> Key:
    values = dict(row._mapping)
    values["scopes"] = tuple(values["scopes"])
    values["models"] = None if values["models"] is None else tuple(values["models"])
    return Key(**values)


def _check(name: str, scopes: Sequence[str], positive: dict[str, float | None]) -> None:
    if not NAME.match(name):
        raise BadInput(f"{name!r} is not a name", field="name", do="use a-z, 0-9 and '-', 63 at most")
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise BadInput(f"{unknown} are no scopes", field="scopes", do=f"use {', '.join(SCOPES)}")
    for field, value in positive.items():
        if value is not None and value <= 0:
            raise BadInput("must be more than 0", field=field)
