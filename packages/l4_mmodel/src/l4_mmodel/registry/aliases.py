"""Aliases: names that move from version to version of a model, each move recorded."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from l4_mmodel._kit.problems import NotFound
from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

from . import queries
from .names import check_alias


def set_alias(
    store: Store, version_id: int, ref: str, alias: str, *, tenant: str, by: str, reason: str = ""
) -> None:
    """Points `alias` of the version's model to it: one transaction, readers see old or new."""
    check_alias(alias)
    with store.change() as connection:
        model_id, number = _model_of(connection, version_id, ref)
        name = ref.partition("@")[0]
        move_alias(
            store, connection, model_id, name, alias, version_id, number, tenant=tenant, by=by, reason=reason
        )


def move_alias(
    store: Store, connection: Connection, model_id: int, name: str, alias: str, version_id: int, number: int,
    *, tenant: str, by: str, reason: str,
) -> None:  # fmt: skip
    """`set_alias` inside a transaction that goes on."""
    connection.execute(queries.DROP_ALIAS, {"of_model": model_id, "of_alias": alias})
    row = {"model_id": model_id, "alias": alias, "version_id": version_id}
    connection.execute(queries.ADD_ALIAS, row)
    _note(store, connection, name, model_id, alias, number, tenant=tenant, by=by, reason=reason)


def remove_alias(store: Store, version_id: int, ref: str, alias: str, *, tenant: str, by: str) -> None:
    """Takes an alias away."""
    with store.change() as connection:
        model_id, _ = _model_of(connection, version_id, ref)
        gone = connection.execute(queries.DROP_ALIAS, {"of_model": model_id, "of_alias": alias})
        if gone.rowcount == 0:
            raise NotFound(f"{ref} has no alias {alias!r}")
        _note(
            store,
            connection,
            ref.partition("@")[0],
            model_id,
            alias,
            None,
            tenant=tenant,
            by=by,
            reason="removed",
        )


def alias_history(store: Store, version_id: int, ref: str) -> list[dict[str, Any]]:
    """Every move of every alias of the version's model, newest first."""
    table = tables.alias_history
    with store.read() as connection:
        model_id, _ = _model_of(connection, version_id, ref)
        query = select(table).where(table.c.model_id == model_id).order_by(table.c.id.desc())
        columns = ("alias", "number", "at", "by", "reason")
        return [{name: row._mapping[name] for name in columns} for row in connection.execute(query)]


def _note(
    store: Store, connection: Connection, name: str, model_id: int, alias: str, number: int | None, *,
    tenant: str, by: str, reason: str,
) -> None:  # fmt: skip
    row = {
        "model_id": model_id,
        "alias": alias,
        "number": number,
        "at": store.clock(),
        "by": by,
        "reason": reason,
    }
    connection.execute(queries.ADD_MOVE, row)
    store.audit(
        connection,
        tenant=tenant,
        by=by,
        action="alias",
        target=f"{name}@{alias}",
        number=number,
        reason=reason,
    )
    store.bump(connection)


def _model_of(connection: Connection, version_id: int, ref: str) -> tuple[int, int]:
    table = tables.versions
    row = connection.execute(select(table.c.model_id, table.c.number).where(table.c.id == version_id)).first()
    if row is None:
        raise NotFound(f"no version {ref}")
    return int(row.model_id), int(row.number)
