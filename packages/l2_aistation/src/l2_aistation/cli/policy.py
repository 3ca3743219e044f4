"""Commands about what shapes decisions: queues, reservations, maintenance."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from l2_aistation._kit.command_line import err, new_app, out, show, show_json
from l2_aistation._kit.problems import BadInput, Failed, NotFound

from .common import AsJson, Url, app, client

queue_app = new_app("Queues: a tree of guarantees, caps, weights.")
window_app = new_app("Reservations and maintenance: times in which nodes are kept free.")
app.add_typer(queue_app, name="queue")
app.add_typer(window_app, name="window")

COLUMNS = (
    "name",
    "parent",
    "weight",
    "guarantee_accelerators",
    "cap_accelerators",
    "used_accelerators",
    "borrowed_accelerators",
    "share",
    "waiting",
    "active",
)
TIMES = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d"]


@queue_app.command("list")
def queue_list(url: Url = None, as_json: AsJson = False) -> None:
    """Show queues with their limits and use."""
    with client(url) as aistation:
        show(aistation.queues(), COLUMNS, as_json=as_json)


@queue_app.command("show")
def queue_show(
    name: Annotated[str, typer.Argument(help="the queue")], url: Url = None, as_json: AsJson = False
) -> None:
    """Show all limits of a queue, and what it uses."""
    with client(url) as aistation:
        found = [row for row in aistation.queues() if row["name"] == name]
    if not found:
        raise NotFound(f"no queue {name!r}", do="`aistation queue list` shows them")
    if as_json:
        show_json(found[0])
        return
    for key, value in found[0].items():
        out.print(f"{key.replace('_', ' '):<24} {value if value not in (None, '', [], {}) else '-'}")


@queue_app.command("set")
def queue_set(
    name: Annotated[str, typer.Argument(help="the queue")],
    *,
    parent: Annotated[str | None, typer.Option(help="the queue above it")] = None,
    guarantee_accelerators: Annotated[int, typer.Option(min=0, help="what it is sure to get")] = 0,
    guarantee_cpu_cores: Annotated[float, typer.Option(min=0, help="what it is sure to get")] = 0,
    guarantee_model: Annotated[
        list[str] | None, typer.Option(help="MODEL=COUNT that it is sure to get")
    ] = None,
    cell: Annotated[
        list[str] | None, typer.Option(help="LEVEL=COUNT whole domains that it is sure to get, as leaf=2")
    ] = None,
    cap_accelerators: Annotated[int | None, typer.Option(min=0, help="what it never exceeds")] = None,
    cap_cpu_cores: Annotated[float | None, typer.Option(min=0, help="what it never exceeds")] = None,
    cap_model: Annotated[list[str] | None, typer.Option(help="MODEL=COUNT that it never exceeds")] = None,
    user_limit_accelerators: Annotated[int | None, typer.Option(min=0, help="for each of its users")] = None,
    user_limit_jobs: Annotated[
        int | None, typer.Option(min=0, help="running jobs for each of its users")
    ] = None,
    weight: Annotated[float, typer.Option(help="its share when queues borrow")] = 1,
    min_run_s: Annotated[float, typer.Option(min=0, help="seconds that its jobs run undisturbed")] = 0,
    preemptible: Annotated[bool, typer.Option(help="whether its jobs may be asked to leave")] = True,
    url: Url = None,
) -> None:
    """Add a queue or change it: what is not given is as for a new one."""
    cells = [{"level": level, "count": count} for level, count in _pairs("cell", cell).items()]
    with client(url) as aistation:
        aistation.put_queue(
            name,
            parent=parent,
            guarantee_accelerators=guarantee_accelerators,
            guarantee_cpu_cores=guarantee_cpu_cores,
            guarantee_models=_pairs("guarantee-model", guarantee_model),
            cells=cells,
            cap_accelerators=cap_accelerators,
            cap_cpu_cores=cap_cpu_cores,
            cap_models=_pairs("cap-model", cap_model),
            user_limit_accelerators=user_limit_accelerators,
            user_limit_jobs=user_limit_jobs,
            weight=weight,
            min_run_s=min_run_s,
            preemptible=preemptible,
        )


@queue_app.command("delete")
def queue_delete(name: Annotated[str, typer.Argument(help="the queue")], url: Url = None) -> None:
    """Take a queue away that has no jobs and none below it."""
    with client(url) as aistation:
        aistation.delete_queue(name)


@window_app.command("list")
def window_list(url: Url = None, as_json: AsJson = False) -> None:
    """Show reservations and maintenance that are not over."""
    columns = ("name", "kind", "start", "until", "nodes", "tenant", "users", "queues")
    with client(url) as aistation:
        show(aistation.windows(), columns, as_json=as_json)


@window_app.command("set")
def window_set(
    name: Annotated[str, typer.Argument(help="the window; jobs name it as their reservation")],
    *,
    kind: Annotated[str, typer.Option(help="reservation, or maintenance, which lets nobody in")],
    start: Annotated[datetime, typer.Option(formats=TIMES, help="when it begins (UTC without a zone)")],
    until: Annotated[datetime, typer.Option(formats=TIMES, help="when it is over")],
    node: Annotated[list[str] | None, typer.Option(help="a node that is kept free")] = None,
    count: Annotated[int, typer.Option(min=0, help="so many nodes, chosen now")] = 0,
    tenant: Annotated[str | None, typer.Option(help="whom it lets in")] = None,
    user: Annotated[list[str] | None, typer.Option(help="whom it lets in")] = None,
    queue: Annotated[list[str] | None, typer.Option(help="whom it lets in")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Keep nodes free from when until when: reserved for some, or for maintenance."""
    with client(url) as aistation:
        window = aistation.put_window(
            name,
            kind=kind,
            start=start.isoformat(),
            until=until.isoformat(),
            nodes=node or [],
            count=count,
            tenant=tenant,
            users=user or [],
            queues=queue or [],
        )
    if as_json:
        show_json(window)
    else:
        out.print(f"{name}: {', '.join(window['nodes'])} from {window['start']} until {window['until']}")


@window_app.command("delete")
def window_delete(name: Annotated[str, typer.Argument(help="the window")], url: Url = None) -> None:
    """Take a reservation or maintenance away."""
    with client(url) as aistation:
        aistation.delete_window(name)


@app.command()
def replay(url: Url = None, as_json: AsJson = False) -> None:
    """Run the decisions since the last snapshot again: each has to come out the same (exit code 1 if not)."""
    with client(url) as aistation, err.status("deciding again"):
        answer = aistation.replay()
    if as_json:
        show_json(answer)
    elif answer["same"]:
        out.print(f"{answer['cycles']} cycles since {answer['since']} decide the same")
    else:
        show(answer["differences"], ("number", "at", "expected", "found"), as_json=False)
    if not answer["same"]:
        raise Failed(f"{len(answer['differences'])} of {answer['cycles']} cycles decide otherwise")


def _pairs(option: str, values: list[str] | None) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for value in values or []:
        name, _, count = value.rpartition("=")
        if not name or not count.isdecimal():
            raise BadInput(f"{value!r} is not NAME=COUNT", field=option)
        pairs[name] = int(count)
    return pairs
