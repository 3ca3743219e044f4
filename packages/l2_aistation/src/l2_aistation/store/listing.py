"""The list of jobs, a page at a time: filtered, searched and sorted by the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, or_, select

from . import tables
from .store import Row, Store

J = tables.jobs.c
SORTS = {
    "job": J.id,
    "state": J.state,
    "queue": J.queue,
    "tenant": J.tenant,
    "user": J.owner,
    "accelerators": J.accelerators,
    "priority": J.priority,
    "submitted": J.submitted_at,
    "started": J.started_at,
    "ended": J.ended_at,
}
COLUMNS = [column for column in tables.jobs.c if column.name not in ("spec", "submit_key")]
LONGEST_SEARCH = 100


@dataclass(frozen=True)
class Listing:
    """What of the jobs is wanted; `sort` is a key of `SORTS`, with `-` before it the other way round."""

    states: tuple[str, ...] = ()
    queue: str = ""
    tenant: str = ""
    user: str = ""
    text: str = ""
    sort: str = "-submitted"
    page: int = 1
    per_page: int = 50


def page(store: Store, scope: str | None, wanted: Listing) -> tuple[list[Row], int]:
    """The jobs of one page that a tenant may see (None: all), and how many there are on all pages."""
    descending = wanted.sort.startswith("-")
    column = SORTS.get(wanted.sort.removeprefix("-"), J.submitted_at)
    order = column.desc() if descending else column.asc()
    if column.nullable:
        order = order.nulls_last()
    rows = (
        _filtered(select(*COLUMNS), scope, wanted)
        .order_by(order, *([] if column is J.submitted_at else [J.submitted_at.desc()]), J.id)
        .limit(wanted.per_page)
        .offset((wanted.page - 1) * wanted.per_page)
    )
    total = _filtered(select(func.count()).select_from(tables.jobs), scope, wanted)
    with store.readers.connect() as connection:
        found: list[Mapping[str, Any]] = [dict(row) for row in connection.execute(rows).mappings()]
        return found, int(connection.execute(total).scalar_one())


def _filtered(query: Select[Any], scope: str | None, wanted: Listing) -> Select[Any]:
    if scope is not None:
        query = query.where(J.tenant == scope)
    if wanted.states:
        query = query.where(J.state.in_(wanted.states))
    for column, value in ((J.queue, wanted.queue), (J.tenant, wanted.tenant), (J.owner, wanted.user)):
        if value:
            query = query.where(column == value)
    words = wanted.text[:LONGEST_SEARCH].split()
    for word in words:
        near = [column.contains(word, autoescape=True) for column in (J.id, J.owner, J.queue, J.cause)]
        query = query.where(or_(*near))
    return query
