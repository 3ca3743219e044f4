"""Commands about jobs: submit, watch, explain, act, look."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from l2_aistation._kit.command_line import out, show, show_json
from l2_aistation._kit.problems import BadInput, Failed
from l2_aistation.client import Aistation

from .common import AsJson, JobId, Url, app, client

JOB_COLUMNS = ("id", "name", "tenant", "queue", "priority", "state", "attempt", "cause", "submitted_at")


@app.command()
def submit(
    spec: Annotated[
        Path,
        typer.Argument(help="a job-spec, or several (YAML documents); YAML or JSON; - is standard input"),
    ],
    tenant: Annotated[str | None, typer.Option(help="the tenant to submit for (operators only)")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="watch the job until it is over")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job, an array, or several jobs at once, all or none."""
    specs = read_specs(spec)
    with client(url) as aistation:
        if len(specs) == 1:
            answers = [aistation.submit(specs[0], tenant=tenant)]
        else:
            answers = aistation.submit_many(specs, tenant=tenant)
        if as_json:
            show_json(answers[0] if len(specs) == 1 else answers)
        else:
            print("\n".join(answer["id"] for answer in answers))
        if wait:
            for answer in answers:
                for job in answer.get("jobs", [answer["id"]]):
                    _follow(aistation, job, as_json=as_json)


def read_specs(path: Path) -> list[dict[str, Any]]:
    """Specs from YAML (several documents are several specs) or JSON (which is YAML too)."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
        values = [value for value in yaml.safe_load_all(text) if value is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read: {error}", field=str(path)) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BadInput(f"is neither YAML nor JSON: {error}", field=str(path)) from error
    if not values or not all(isinstance(value, dict) for value in values):
        raise BadInput("is no mapping", field=str(path), do="see `aistation schema job-spec`")
    return values


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
    words = " ".join(f"{name}={_plain(value)}" for name, value in rest.items())
    out.print(f"{event.get('at', '')}  {event['event']:<10} {words}", markup=False, soft_wrap=True)


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


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
    if "jobs" in view:
        show(view["jobs"], ("id", "array_index", "state", "cause"), as_json=False, title="array")
    if view["faults"]:
        columns = ("attempt", "at", "label", "category", "node", "rank", "action", "confidence")
        show(view["faults"], columns, as_json=False, title="faults")
        for line in view["faults"][-1]["evidence"]:
            out.print(f"  {line}", markup=False, soft_wrap=True)


@app.command()
def reliability(job: JobId, url: Url = None, as_json: AsJson = False) -> None:
    """Say what became of a job's time: goodput, ETTR, MTTR, MTBF, by phase and by cause."""
    with client(url) as aistation:
        figures = aistation.reliability(job)
    if as_json:
        show_json(figures)
        return
    for name in ("goodput", "ettr"):
        out.print(f"{name:<10} {'-' if figures[name] is None else format(figures[name], '.1%')}")
    for name in ("mttr_s", "mtbf_s", "wall_s"):
        out.print(f"{name[:-2]:<10} {'-' if figures[name] is None else format(figures[name], '.1f') + ' s'}")
    phases = [{"phase": phase, "seconds": seconds} for phase, seconds in figures["phases_s"].items()]
    show(phases, ("phase", "seconds"), as_json=False)
    if figures["causes"]:
        show(figures["causes"], ("label", "faults", "lost_s"), as_json=False)


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


@app.command()
def session(job: JobId, url: Url = None, as_json: AsJson = False) -> None:
    """Print how to come into a session of yours: JupyterLab's address with its token, or the ssh command."""
    with client(url) as aistation:
        answer = aistation.session(job)
    if as_json:
        show_json(answer)
    elif answer["kind"] == "ssh":
        print(f"ssh -p {answer['port']} {answer['user']}@{answer['host']}")
    else:
        print(f"{answer['url']}?token={answer['token']}")


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
