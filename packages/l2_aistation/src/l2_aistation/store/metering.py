"""What metering reads: attempts as stretches of time, and the log of the pool's size."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator

from sqlalchemy import func, or_, select

from l2_aistation.core.metering import Capacity, Stretch, held_by_model, settled
from l2_aistation.core.pool import NodeFacts

from . import tables
from .rows import slots_of
from .store import Store

A, J = tables.attempts.c, tables.jobs.c
AT_ONCE = 2000
"""Rows held in memory at a time: a long history streams through."""


def stretches(
    store: Store,
    since: float,
    until: float,
    *,
    tenant: str | None,
    node: Callable[[str], NodeFacts],
) -> Iterator[Stretch]:
    """The attempts that held accelerators within [since, until), settled, job after job.

    `node` gives the facts of a node for rows that were written before they said what they hold.
    """
    return settled(_rows(store, since, until, tenant, node))


def _rows(
    store: Store, since: float, until: float, tenant: str | None, node: Callable[[str], NodeFacts]
) -> Iterator[Stretch]:
    columns = (A.job, A.number, A.created_at, A.started_at, A.ended_at, A.fault_at, A.held, A.last_step)
    query = (
        select(*columns, J.tenant, J.queue, J.owner, J.ended_at.label("job_ended_at"))
        .join(tables.jobs, J.id == A.job)
        .where(A.created_at < until, or_(A.ended_at.is_(None), A.ended_at > since))
        .where(or_(A.held.is_(None), A.held != "{}"))
        .order_by(A.job, A.number)
    )
    if tenant is not None:
        query = query.where(J.tenant == tenant)
    said = functools.lru_cache(maxsize=AT_ONCE)(json.loads)  # most attempts hold what others held
    with store.readers.connect() as connection:
        for row in connection.execution_options(yield_per=AT_ONCE).execute(query):
            job, number, created, started, ended, fault, text, step, tenant_, queue, owner, job_ended = row
            held = said(text) if text is not None else _held(store, job, number, node)
            if not held:
                continue
            run_until = fault
            if fault is not None and step is not None:
                run_until = _last_report(store, job, number) or fault
            end = ended if ended is not None else job_ended
            yield Stretch(job, number, tenant_, queue, owner, held, created, end, started, run_until)


def _last_report(store: Store, job: str, attempt: int) -> float | None:
    steps = tables.steps.c
    query = select(func.max(steps.at)).where(steps.job == job, steps.attempt == attempt)
    with store.readers.connect() as connection:
        return connection.execute(query).scalar()


def _held(store: Store, job: str, number: int, node: Callable[[str], NodeFacts]) -> dict[str, float]:
    query = select(A.slots).where(A.job == job, A.number == number)
    with store.readers.connect() as connection:
        slots = slots_of(connection.execute(query).scalar_one())
    try:
        return held_by_model(slots, node)
    except (KeyError, IndexError):  # the node has left the pool since, or has fewer accelerators now
        return {"unknown": float(sum(len(slot.accelerators) for slot in slots))}


def capacities(store: Store, since: float, until: float) -> list[Capacity]:
    """The pool's size within [since, until): the entry that held at `since`, and those after it."""
    table = tables.capacity
    with store.readers.connect() as connection:
        before = table.c.at <= since
        first = connection.execute(select(func.max(table.c.seq)).where(before)).scalar() or 0
        query = (
            select(table).where(table.c.seq >= first, table.c.at < until).order_by(table.c.at, table.c.seq)
        )
        return [
            Capacity(row.at, json.loads(row.total), json.loads(row.out_of_service))
            for row in connection.execute(query.order_by(table.c.at, table.c.seq))
        ]
