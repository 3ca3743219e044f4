"""The pages: clusters, plan, run, report, diagnosis, software stack."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from l1_podsys._kit.problems import Problem
from l1_podsys._kit.web import Caller, Operator, caller, link, render
from l1_podsys.core.acceptance import figure
from l1_podsys.core.compatibility import COMPONENTS, Explanation, known_good, solve
from l1_podsys.documents import ClusterReport, TopologyNode

from .background import Work
from .rest import (
    cluster_of,
    event_stream,
    newest_plan,
    podsys_of,
    read_uploads,
    start_apply,
    without_logins,
)

pages = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
VERDICT_BADGE = {"pass": "ok", "warn": "warn", "fail": "bad", "unknown": "idle"}
STATE_BADGE = {"pending": "idle", "applying": "info", "applied": "info", "proved": "ok", "failed": "bad"}
RUN_BADGE = {"done": "ok", "failed": "bad", "unfinished": "info"}


@pages.get("/")
def clusters(request: Request, who: Caller) -> HTMLResponse:
    """All clusters of the caller."""
    rows = [cluster.summary() for cluster in podsys_of(request).clusters(who.scope())]
    return render(request, "clusters.html", rows=rows, run_badge=RUN_BADGE)


@pages.get("/clusters/{name}")
def cluster(request: Request, who: Caller, name: str) -> HTMLResponse:
    """One cluster: its hosts by place, what can be done, its runs and its newest report."""
    found = cluster_of(request, name, who)
    inventory = found.inventory()
    report = found.report()
    return render(
        request,
        "cluster.html",
        name=name,
        inventory=inventory if who.is_operator else without_logins(inventory),
        plan=found.plan() if who.is_operator else None,
        plan_applied=found.plan_applied(),
        report=report,
        counts=verdict_counts(report),
        runs=[run.summary() for run in found.runs()[:10]],
        work=request.app.state.background.work.get(name),
        may_act=who.is_operator,
        verdict_badge=VERDICT_BADGE,
        run_badge=RUN_BADGE,
    )


def verdict_counts(report: ClusterReport | None) -> dict[str, int]:
    """How many checks have each verdict."""
    counts: dict[str, int] = {}
    for check in report.checks if report else []:
        counts[check.verdict] = counts.get(check.verdict, 0) + 1
    return dict(sorted(counts.items()))


@pages.get("/clusters/{name}/work")
def work(request: Request, who: Caller, name: str) -> HTMLResponse:
    """The fragment with what is being done; it asks again while it runs."""
    cluster_of(request, name, who)
    current: Work | None = request.app.state.background.work.get(name)
    response = render(request, "work.html", name=name, work=current)
    if current is not None and not current.running and current.problem is None:
        response.headers["HX-Refresh"] = "true"
        request.app.state.background.work.pop(name, None)
    return response


@pages.post("/clusters/{name}/plan")
def make_plan(request: Request, who: Operator, name: str) -> RedirectResponse:
    """Make a plan in the background."""
    found, podsys = cluster_of(request, name, who), podsys_of(request)
    inventory = found.inventory()
    request.app.state.background.start(
        name, "plan", lambda say: podsys.plan(inventory, base=found.folder, say=say)
    )
    return RedirectResponse(link(request, f"/clusters/{name}"), status_code=303)


@pages.post("/clusters/{name}/verify")
def verify(request: Request, who: Operator, name: str) -> RedirectResponse:
    """Measure in the background."""
    found, podsys = cluster_of(request, name, who), podsys_of(request)
    inventory = found.inventory()
    request.app.state.background.start(
        name, "verify", lambda say: podsys.verify(inventory, base=found.folder, say=say)
    )
    return RedirectResponse(link(request, f"/clusters/{name}"), status_code=303)


@pages.get("/clusters/{name}/plan")
def plan(request: Request, who: Operator, name: str) -> HTMLResponse:
    """The newest plan as differences per host."""
    found = newest_plan(cluster_of(request, name, who))
    return render(request, "plan.html", name=name, plan=found, digest=found.digest())


@pages.post("/clusters/{name}/apply")
def apply(request: Request, who: Operator, name: str, digest: Annotated[str, Form()]) -> RedirectResponse:
    """Apply the plan that was looked at, and show its run."""
    found = newest_plan(cluster_of(request, name, who))
    if found.digest() != digest:
        return RedirectResponse(link(request, f"/clusters/{name}/plan"), status_code=303)
    run = start_apply(podsys_of(request), found)
    return RedirectResponse(link(request, f"/clusters/{name}/runs/{run.id}"), status_code=303)


@pages.get("/runs")
def runs(request: Request, who: Caller) -> HTMLResponse:
    """All runs of the caller's clusters."""
    rows = [run.summary() for run in podsys_of(request).runs(who.scope())[:200]]
    return render(request, "runs.html", rows=rows, run_badge=RUN_BADGE)


@pages.get("/clusters/{name}/runs/{run_id}")
def run(request: Request, who: Caller, name: str, run_id: str) -> HTMLResponse:
    """One run; a table that follows it."""
    found = cluster_of(request, name, who).run(run_id)
    return render(request, "run.html", name=name, run=found, **run_table(found))


def run_table(found: Any) -> dict[str, Any]:
    """Hosts, roles and states of a run, for the table."""
    states = found.states()
    hostnames = {host.id: host.hostname for host in found.plan.hosts}
    return {
        "summary": found.summary(),
        "roles": list(dict.fromkeys(role for _, role in states.states)),
        "hosts": list(dict.fromkeys(host for host, _ in states.states)),
        "hostnames": hostnames,
        "states": states.states,
        "failures": found.failures(),
        "state_badge": STATE_BADGE,
        "run_badge": RUN_BADGE,
    }


@pages.get("/clusters/{name}/runs/{run_id}/table")
async def run_live(request: Request, who: Caller, name: str, run_id: str) -> StreamingResponse:
    """Server-sent events: the run's table, again after each group of events."""
    found = await asyncio.to_thread(lambda: cluster_of(request, name, who).run(run_id))

    async def tables() -> Any:
        async for _ in event_stream(found):
            html = await asyncio.to_thread(lambda: render(request, "run_table.html", **run_table(found)))
            lines = bytes(html.body).decode().splitlines()
            yield "event: table\n" + "".join(f"data: {line}\n" for line in lines) + "\n"
        yield "event: end\ndata: end\n\n"

    return StreamingResponse(tables(), media_type="text/event-stream")


@pages.get("/clusters/{name}/report")
def report(request: Request, who: Caller, name: str) -> HTMLResponse:
    """The newest report."""
    found = podsys_of(request).report(name, who.scope())
    return render(
        request,
        "report.html",
        name=name,
        report=found,
        counts=verdict_counts(found),
        digest=found.digest(),
        figure=figure,
        leaves=list(leaves(found.topology)),
        nodes={node.id: node for node in found.nodes},
        verdict_badge=VERDICT_BADGE,
    )


def leaves(node: TopologyNode, path: tuple[str, ...] = ()) -> Any:
    """Each leaf switch with its path and the ids below it."""
    if node.level == "leaf":
        ids = [child.name for rack in node.children for child in rack.children]
        yield {"path": " / ".join((*path, node.name)), "nodes": ids}
        return
    for child in node.children:
        yield from leaves(child, path if node.level == "root" else (*path, node.name))


@pages.get("/diagnose", dependencies=[Depends(caller)])
def diagnose_page(request: Request) -> HTMLResponse:
    """Where files are given."""
    return render(request, "diagnose.html", findings=None, names=[], problem=None)


@pages.post("/diagnose", dependencies=[Depends(caller)])
async def diagnose(request: Request, files: Annotated[list[UploadFile], File()]) -> HTMLResponse:
    """What was found in them."""
    try:
        texts = await read_uploads(files)
    except Problem as problem:
        return render(
            request, "diagnose.html", status=problem.status, findings=None, names=[], problem=problem
        )
    found = await asyncio.to_thread(podsys_of(request).diagnose, texts)
    return render(request, "diagnose.html", findings=found, names=list(texts), problem=None)


@pages.get("/stack", dependencies=[Depends(caller)])
def stack(request: Request) -> HTMLResponse:
    """Known-good stacks, and a form that completes or refuses one."""
    given = {
        name: request.query_params[name].strip() for name in COMPONENTS if request.query_params.get(name)
    }
    answer = solve(given) if given else None
    conflict = answer if isinstance(answer, Explanation) else None
    return render(
        request,
        "stack.html",
        given=given,
        solution=answer if conflict is None else None,
        conflict=conflict,
        components=COMPONENTS,
        table=known_good(),
    )
