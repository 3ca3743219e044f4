"""The `aistation` command line."""

from __future__ import annotations

import json
import logging
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from . import __version__
from ._kit import logs
from ._kit.command_line import add_config_command, new_app, out, run, show, show_json
from ._kit.documents import Document, json_schema, read_json
from ._kit.problems import BadInput, Failed, Unavailable
from ._kit.tokens import TokenStore
from .client import Aistation
from .documents import JobRecord, JobSpec
from .settings import Settings

app = new_app(
    "Scheduling platform: one pool of accelerators, gangs placed whole, training that heals itself."
)
pool_app = new_app("The pool: its nodes and where it comes from.")
queue_app = new_app("Queues: guarantees, caps, weights.")
token_app = new_app("Who may call: bearer tokens with a tenant and a role.")
broker_app = new_app("The private broker that agents connect to.")
add_config_command(app, Settings)
app.add_typer(pool_app, name="pool")
app.add_typer(queue_app, name="queue")
app.add_typer(token_app, name="token")
app.add_typer(broker_app, name="broker")

AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Url = Annotated[str | None, typer.Option("--url", help="where the service is")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="the job's id")]
JOB_COLUMNS = ("id", "name", "tenant", "queue", "priority", "state", "attempt", "cause", "submitted_at")
DOCUMENTS: dict[str, type[Document]] = {"job-spec": JobSpec, "job-record": JobRecord}


def client(url: str | None) -> Aistation:
    return Aistation(settings=Settings.load(url=url))


def _version(value: bool) -> None:
    if value:
        out.print(__version__)
        raise typer.Exit


@app.callback()
def main_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Scheduling platform: one pool of accelerators, gangs placed whole, training that heals itself."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="address to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    broker_listen: Annotated[
        str | None, typer.Option(help="address where the private broker listens for agents")
    ] = None,
) -> None:
    """Run the scheduler, the REST interface and the pages in one process."""
    import uvicorn

    from .service import take_lock
    from .web import create_app

    settings = Settings.load(host=host, port=port, broker_listen=broker_listen)
    logs.set_up()
    logging.getLogger("alembic").setLevel(logging.WARNING)
    tokens = TokenStore(settings.tokens_file)
    tokens.admin_token()
    take_lock(settings).close()  # said here in one line; the service takes it for good
    listening = listen(settings.host, settings.port)
    out.print(f"aistation on http://{settings.host}:{settings.port}, operator's token in {tokens.admin_file}")
    config = uvicorn.Config(
        create_app(settings),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=3,
        lifespan="on",
        ws="none",
    )
    uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `Unavailable` says why there is none."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Unavailable(
            f"cannot listen on {host}:{port}", why=str(error), do="choose another --host or --port"
        ) from error


@app.command()
def agent(
    node: Annotated[str, typer.Option(help="this node's id in the pool")],
) -> None:
    """Run a node's agent: it takes commands from the broker and supervises tasks."""
    from .agent import run as run_agent

    logs.set_up()
    run_agent(node, Settings.load())


@app.command()
def submit(
    spec: Annotated[Path, typer.Argument(help="a job-spec, YAML or JSON; - reads standard input")],
    tenant: Annotated[str | None, typer.Option(help="the tenant to submit for (operators only)")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="watch the job until it is over")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job."""
    with client(url) as aistation:
        answer = aistation.submit(read_spec(spec), tenant=tenant)
        if as_json:
            show_json(answer)
        else:
            print(answer["id"])
        if wait:
            _follow(aistation, answer["id"], as_json=as_json)


def read_spec(path: Path) -> dict[str, Any]:
    """A spec from YAML or JSON (which is YAML too)."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
        value = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read: {error}", field=str(path)) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BadInput(f"is neither YAML nor JSON: {error}", field=str(path)) from error
    if not isinstance(value, dict):
        raise BadInput("is no mapping", field=str(path), do="see `aistation schema job-spec`")
    return value


def _follow(aistation: Aistation, job: str, *, as_json: bool) -> None:
    for event in aistation.watch(job):
        _print_event(event, as_json=as_json)
    state = aistation.job(job)
    if state["state"] != "completed":
        raise Failed(f"job {job} {state['state']}", why=state["why"] or state["cause"] or "")


def _print_event(event: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(event, ensure_ascii=False), flush=True)
        return
    rest = {
        name: value
        for name, value in event.items()
        if name not in ("id", "event", "at", "job", "slots", "digest") and value not in (None, "", [], {})
    }
    words = " ".join(f"{name}={value}" for name, value in rest.items())
    out.print(f"{event.get('at', '')}  {event['event']:<10} {words}", markup=False, soft_wrap=True)


@app.command()
def jobs(
    state: Annotated[str | None, typer.Option(help="only jobs in this state")] = None,
    queue: Annotated[str | None, typer.Option(help="only jobs of this queue")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="at most so many")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    with client(url) as aistation:
        show(aistation.jobs(state=state, queue=queue, limit=limit), JOB_COLUMNS, as_json=as_json)


@app.command()
def job(job: JobId, url: Url = None, as_json: AsJson = False) -> None:
    """Show a job with its attempts and faults."""
    with client(url) as aistation:
        view = aistation.job(job)
    if as_json:
        show_json(view)
        return
    for name in (*JOB_COLUMNS, "started_at", "ended_at", "why"):
        out.print(f"{name.replace('_', ' '):<13} {view[name] if view[name] not in (None, '') else '-'}")
    attempts = [
        {**attempt, "nodes": list(dict.fromkeys(place["node"] for place in attempt["placement"]))}
        for attempt in view["attempts"]
    ]
    columns = ("number", "state", "nodes", "cause", "first_step", "last_step", "resumed_from", "lost_steps")
    show(attempts, columns, as_json=False, title="attempts")
    if view["faults"]:
        columns = ("attempt", "at", "label", "category", "node", "rank", "action", "confidence")
        show(view["faults"], columns, as_json=False, title="faults")


@app.command()
def explain(job: JobId, url: Url = None, as_json: AsJson = False) -> None:
    """Say why a job waits: which limit, how much it needs, how much is free, who holds it."""
    with client(url) as aistation:
        answer = aistation.explain(job)
    if as_json:
        show_json(answer)
        return
    out.print(answer["words"], markup=False, soft_wrap=True)
    if answer.get("ahead"):
        out.print(f"{answer['ahead']} jobs of its queue are ahead of it")
    if answer.get("start_by"):
        out.print(f"by the time limits of others it can start by {answer['start_by']}")
    if answer.get("holders"):
        show(answer["holders"], ("job", "tenant", "amount", "unit", "until"), as_json=False, title="held by")


def _verb(verb: str, help_text: str) -> None:
    def command(job: JobId, url: Url = None, as_json: AsJson = False) -> None:
        with client(url) as aistation:
            answer = getattr(aistation, verb)(job)
        if as_json:
            show_json(answer)
        else:
            out.print(f"{answer['id']} is {answer['state']}")

    app.command(verb, help=help_text)(command)


_verb("cancel", "End a job for good.")
_verb("suspend", "Take a job off its nodes until it is released.")
_verb("release", "Let a suspended job wait for a place again.")
_verb("requeue", "Take a job off its nodes and let it wait for others.")


@app.command()
def watch(job: JobId, url: Url = None, as_json: AsJson = False) -> None:
    """Print a job's events as they happen, until it is over (exit code 1 unless it completed)."""
    with client(url) as aistation:
        _follow(aistation, job, as_json=as_json)


@app.command("logs")
def show_logs(
    job: JobId,
    rank: Annotated[int, typer.Option(min=0, help="the rank")] = 0,
    attempt: Annotated[int | None, typer.Option(min=1, help="the attempt; the newest by default")] = None,
    lines: Annotated[int, typer.Option(min=1, max=100_000, help="so many lines from the end")] = 1000,
    url: Url = None,
) -> None:
    """Print the end of what a rank wrote."""
    with client(url) as aistation:
        sys.stdout.write(aistation.logs(job, rank=rank, attempt=attempt, lines=lines))


@app.command()
def record(
    job: JobId,
    to: Annotated[Path | None, typer.Option("--out", help="write the document to this file")] = None,
    url: Url = None,
) -> None:
    """Write the job-record/v1 of a job."""
    with client(url) as aistation:
        document = aistation.record(job)
    if to is None:
        show_json(document.as_json())
    else:
        out.print(f"{to} {document.write(to)}", soft_wrap=True)


@app.command()
def diagnose(
    files: Annotated[list[Path], typer.Argument(help="logs of ranks and kernels")],
    as_json: AsJson = False,
) -> None:
    """Say what broke, from logs alone: label, place, evidence, action."""
    from .log_files import diagnose as diagnose_files

    answer: dict[str, Any] = diagnose_files(files).as_json()
    if as_json:
        show_json(answer)
        return
    columns = ("label", "category", "node", "rank", "action", "confidence")
    show(answer["causes"], columns, as_json=False)
    for cause in answer["causes"]:
        for line in cause.get("evidence", []):
            out.print(f"  {line}", markup=False, soft_wrap=True)


@pool_app.command("show")
def pool_show(url: Url = None, as_json: AsJson = False) -> None:
    """Show the pool's nodes."""
    with client(url) as aistation:
        view = aistation.pool()
    if as_json:
        show_json(view)
        return
    rows = [
        {
            **node,
            "accelerators": f"{sum(item['job'] is None for item in node['accelerators'])}"
            f"/{len(node['accelerators'])}",
            "cpu_cores": f"{node['cpu_cores_free']:g}/{node['cpu_cores']}",
            "jobs": [item["job"] for item in node["jobs"]],
        }
        for node in view["nodes"]
    ]
    title = (
        f"{view['cluster']}: {len(rows)} nodes, {view['accelerators_free']} of {view['accelerators']} free"
    )
    columns = ("id", "state", "leaf", "spine", "accelerators", "cpu_cores", "engine", "jobs", "reason")
    show(rows, columns, as_json=False, title=title)


@pool_app.command("import")
def pool_import(
    report: Annotated[Path, typer.Argument(help="a cluster-report/v1")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take the cluster of L1's cluster-report in as the pool."""
    with client(url) as aistation:
        answer = aistation.import_pool(read_json(report))
    if as_json:
        show_json(answer)
    else:
        out.print(f"pool {answer['cluster']}: {answer['nodes']} nodes")


@pool_app.command("cordon")
def pool_cordon(
    node: Annotated[str, typer.Argument(help="the node's id")],
    reason: Annotated[str, typer.Option(help="why, for people")] = "",
    url: Url = None,
) -> None:
    """Keep new tasks off a node; what runs there goes on."""
    with client(url) as aistation:
        aistation.cordon(node, reason)


@pool_app.command("uncordon")
def pool_uncordon(node: Annotated[str, typer.Argument(help="the node's id")], url: Url = None) -> None:
    """Let tasks onto a node again."""
    with client(url) as aistation:
        aistation.uncordon(node)


@queue_app.command("list")
def queue_list(url: Url = None, as_json: AsJson = False) -> None:
    """Show queues with their limits and use."""
    columns = (
        "name",
        "guarantee_accelerators",
        "cap_accelerators",
        "used_accelerators",
        "used_cpu_cores",
        "share",
        "waiting",
        "active",
    )
    with client(url) as aistation:
        show(aistation.queues(), columns, as_json=as_json)


@queue_app.command("set")
def queue_set(
    name: Annotated[str, typer.Argument(help="the queue")],
    guarantee_accelerators: Annotated[int, typer.Option(min=0, help="what it is sure to get")] = 0,
    guarantee_cpu_cores: Annotated[float, typer.Option(min=0, help="what it is sure to get")] = 0,
    cap_accelerators: Annotated[int | None, typer.Option(min=0, help="what it never exceeds")] = None,
    cap_cpu_cores: Annotated[float | None, typer.Option(min=0, help="what it never exceeds")] = None,
    weight: Annotated[float, typer.Option(help="its share when queues borrow")] = 1,
    url: Url = None,
) -> None:
    """Add a queue or change it."""
    with client(url) as aistation:
        aistation.put_queue(
            name,
            guarantee_accelerators=guarantee_accelerators,
            guarantee_cpu_cores=guarantee_cpu_cores,
            cap_accelerators=cap_accelerators,
            cap_cpu_cores=cap_cpu_cores,
            weight=weight,
        )


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Argument(help="the token's name")],
    tenant: Annotated[str, typer.Option(help="whose things it sees")],
    role: Annotated[str, typer.Option(help="user or operator")] = "user",
    lifetime_s: Annotated[float | None, typer.Option(help="seconds until it expires")] = None,
) -> None:
    """Make a token and print it: the only time that it can be read."""
    print(TokenStore(Settings.load().tokens_file).create(name, tenant, role, lifetime_s=lifetime_s))


@token_app.command("list")
def token_list(as_json: AsJson = False) -> None:
    """List tokens."""
    rows = [
        {"name": row.name, "tenant": row.tenant, "role": row.role, "expires": row.expires}
        for row in TokenStore(Settings.load().tokens_file).rows()
    ]
    show(rows, ("name", "tenant", "role", "expires"), as_json=as_json)


@token_app.command("revoke")
def token_revoke(name: Annotated[str, typer.Argument(help="the token's name")]) -> None:
    """Make a token invalid."""
    TokenStore(Settings.load().tokens_file).revoke(name)


@broker_app.command("url")
def broker_url() -> None:
    """Print the URL (with its password) that agents need as OGAI_L2_BROKER_URL."""
    from .broker import url_for_agents

    print(url_for_agents(Settings.load()))


@app.command()
def schema(
    name: Annotated[str | None, typer.Argument(help=f"one of {', '.join(DOCUMENTS)}")] = None,
) -> None:
    """Print the JSON Schema of a document of this layer, or of all."""
    if name is None:
        show_json({key: json.loads(json_schema(model)) for key, model in DOCUMENTS.items()})
    elif name in DOCUMENTS:
        print(json_schema(DOCUMENTS[name]), end="")
    else:
        raise BadInput(
            f"there is no document {name!r}", field="name", do=f"use one of {', '.join(DOCUMENTS)}"
        )


def main() -> None:
    """The entry point of the `aistation` script."""
    run(app)
