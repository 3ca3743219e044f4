"""Reservations and maintenance windows: an operator makes them, who is let in sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from l2_aistation._kit.problems import BadInput, Conflict, NotFound
from l2_aistation._kit.tokens import NAME, Principal
from l2_aistation.core.windows import Window, choose
from l2_aistation.store.rows import dump

from .platform import Platform
from .times import moment


def put_window(platform: Platform, who: Principal, record: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a window or changes one; a count of nodes is turned into the nodes that are free soonest."""
    who.must_be_operator()
    world, now = platform.world, platform.clock()
    name = str(record["name"])
    if not NAME.match(name):
        raise BadInput(f"{name!r} is not a name", field="name", do="use a-z, 0-9 and '-', 63 at most")
    asked = Window.from_record(record)
    if asked.until <= now:
        raise BadInput("is over already", field="until", do="give a later time")
    unknown = [queue for queue in asked.queues if queue not in world.queues]
    if unknown:
        raise BadInput(f"there is no queue {unknown[0]!r}", field="queues")
    window = choose(asked, world.pool, world.windows.values(), _busy_until(platform, now))
    world.windows[name] = window
    platform.batch.window(name, _row(window, who))
    platform.note("window", None, who=who.name, change="set", name=name, window=window.as_record())
    platform.dirty = True
    return window_view(window)


def delete_window(platform: Platform, who: Principal, name: str) -> dict[str, Any]:
    """Takes a window away; refused while jobs wait for the reservation."""
    who.must_be_operator()
    world = platform.world
    if name not in world.windows:
        raise NotFound(f"no window {name!r}", do="`aistation window list` shows them")
    waiting = [job.id for job in world.jobs.values() if job.reservation == name and job.placement is None]
    if waiting:
        raise Conflict(f"{len(waiting)} jobs wait for it, {waiting[0]} first", do="cancel them first")
    del world.windows[name]
    platform.batch.window(name, None)
    platform.note("window", None, who=who.name, change="deleted", name=name)
    platform.dirty = True
    return {"window": name, "deleted": True}


def windows_view(platform: Platform, who: Principal) -> list[dict[str, Any]]:
    """The windows that are not over: all for an operator, else those that are nobody else's."""
    now = platform.clock()
    shown = [
        window
        for window in platform.world.windows.values()
        if window.until > now and (window.tenant is None or who.may_see(window.tenant))
    ]
    return [window_view(window) for window in sorted(shown, key=lambda item: (item.start, item.name))]


def window_view(window: Window) -> dict[str, Any]:
    """A window for people."""
    return {**window.as_record(), "start": moment(window.start), "until": moment(window.until)}


def forget_old(platform: Platform, now: float) -> None:
    """Drops windows that are over."""
    for name in [name for name, window in platform.world.windows.items() if window.until <= now]:
        del platform.world.windows[name]
        platform.batch.window(name, None)
        platform.note("window", None, change="over", name=name)
        platform.dirty = True


def _row(window: Window, who: Principal) -> dict[str, Any]:
    return {
        "name": window.name,
        "kind": window.kind,
        "tenant": window.tenant,
        "starts_at": window.start,
        "ends_at": window.until,
        "body": dump(window.as_record()),
        "created_by": who.name,
        "version": 1,
    }


def _busy_until(platform: Platform, now: float) -> dict[str, float]:
    """When the last job on each node ends by its limit."""
    pool = platform.world.pool
    busy: dict[str, float] = {}
    for job in platform.world.holders():
        if job.placement is not None:
            end = job.limit_at(now)
            for number in set(job.placement.nodes.tolist()):
                node = pool.facts[number].id
                busy[node] = max(busy.get(node, 0.0), end)
    return busy
