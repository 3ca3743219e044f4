"""The REST interface.  Whoever has a token sees the clusters of its tenant; operators act."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, File, Request, UploadFile
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from l1_podsys._kit.problems import BadInput, Conflict, NotFound
from l1_podsys._kit.tokens import Principal
from l1_podsys._kit.web import Caller, Operator, caller, operator
from l1_podsys.backends.folders import ClusterFolder, Run
from l1_podsys.core.compatibility import Explanation, solve
from l1_podsys.core.diagnosis import Finding
from l1_podsys.core.inventory import Inventory
from l1_podsys.core.planning import Plan
from l1_podsys.documents import ClusterReport
from l1_podsys.service import Podsys
from l1_podsys.service.texts import MOST_BYTES, decode

PROBLEM = {"content": {"application/problem+json": {"schema": {"type": "object"}}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, **PROBLEM}
    for status, text in (
        (400, "the request cannot be read"),
        (401, "no token, or a wrong one"),
        (403, "only an operator may do this"),
        (404, "no such thing, or another tenant's"),
        (409, "not in this state"),
        (422, "bad input; `field` names it"),
        (500, "it was tried and failed"),
        (503, "something needed does not answer"),
    )
}
rest = APIRouter(prefix="/api/v1", responses=PROBLEMS)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class InventoryText(_Body):
    """An inventory as YAML text."""

    inventory: str = Field(max_length=8 << 20)


class ApplyBody(_Body):
    """Which plan to apply: the digest of the one that was looked at."""

    plan: str


class StackBody(_Body):
    """Components and their versions."""

    stack: dict[str, str]


def podsys_of(request: Request) -> Podsys:
    """The service of this application."""
    service: Podsys = request.app.state.podsys
    return service


def cluster_of(request: Request, name: str, who: Principal) -> ClusterFolder:
    """A cluster that the caller may see."""
    return podsys_of(request).state.known(name, who.scope())


def newest_plan(cluster: ClusterFolder) -> Plan:
    """The cluster's newest plan, else `NotFound`."""
    plan = cluster.plan()
    if plan is None:
        raise NotFound(f"no plan of cluster {cluster.name} yet", do="make one")
    return plan


def start_apply(podsys: Podsys, plan: Plan) -> Run:
    """Starts an apply in a thread; returns when its run exists, or raises why there is none."""
    answers: queue.Queue[Run | Exception] = queue.Queue()

    def work() -> None:
        try:
            podsys.apply(plan, started=answers.put)
        except Exception as error:  # noqa: BLE001 (handed to the caller, or told by the run's own log)
            answers.put(error)

    threading.Thread(target=work, name="apply", daemon=True).start()
    answer = answers.get()
    if isinstance(answer, Exception):
        raise answer
    return answer


def plan_json(plan: Plan) -> dict[str, Any]:
    """A plan with its digest and its number of changes."""
    return plan.as_json() | {"digest": plan.digest(), "changes": plan.changes}


@rest.get("/clusters")
def clusters(request: Request, who: Caller) -> list[dict[str, Any]]:
    """The caller's clusters."""
    return [cluster.summary() for cluster in podsys_of(request).clusters(who.scope())]


@rest.post("/clusters", status_code=201, dependencies=[Depends(operator)])
def add_cluster(request: Request, body: InventoryText) -> dict[str, Any]:
    """Keep a cluster's inventory, given as YAML; it is checked as on the command line."""
    inventory = podsys_of(request).save(body.inventory)
    return {"cluster": inventory.cluster, "hosts": len(inventory.hosts)}


@rest.get("/clusters/{name}", response_model_exclude_none=True)
def cluster(request: Request, who: Caller, name: str) -> Inventory:
    """A cluster's inventory; how to log in is shown to operators only."""
    inventory = cluster_of(request, name, who).inventory()
    return inventory if who.is_operator else without_logins(inventory)


def without_logins(inventory: Inventory) -> Inventory:
    """An inventory without key paths and profile paths of the controller."""
    hosts = [host.model_copy(update={"ssh": None}) for host in inventory.hosts]
    ssh = inventory.ssh.model_copy(update={"key": None})
    return inventory.model_copy(update={"ssh": ssh, "profile": None, "hosts": hosts})


@rest.get("/clusters/{name}/plan")
def plan(request: Request, who: Operator, name: str) -> dict[str, Any]:
    """The newest plan."""
    return plan_json(newest_plan(cluster_of(request, name, who)))


@rest.post("/clusters/{name}/plan")
def make_plan(request: Request, who: Operator, name: str) -> dict[str, Any]:
    """Ask every host and compare.  Changes nothing on any host."""
    found = cluster_of(request, name, who)
    return plan_json(podsys_of(request).plan(found.inventory(), base=found.folder))


@rest.post("/clusters/{name}/apply", status_code=202)
def apply(request: Request, who: Operator, name: str, body: ApplyBody) -> dict[str, Any]:
    """Apply the newest plan, if it is the one named; follow the run's events."""
    found = newest_plan(cluster_of(request, name, who))
    if found.digest() != body.plan:
        raise Conflict("this is not the newest plan", field="plan", do="look at the newest plan first")
    return start_apply(podsys_of(request), found).summary()


@rest.post("/clusters/{name}/verify", response_model_exclude_none=True)
def verify(request: Request, who: Operator, name: str) -> ClusterReport:
    """Measure every host and the network; takes seconds.  Changes nothing."""
    found = cluster_of(request, name, who)
    return podsys_of(request).verify(found.inventory(), base=found.folder)


@rest.get("/clusters/{name}/report", response_model_exclude_none=True)
def report(request: Request, who: Caller, name: str) -> ClusterReport:
    """The newest cluster-report/v1."""
    return podsys_of(request).report(name, who.scope())


@rest.get("/clusters/{name}/runs")
def cluster_runs(request: Request, who: Caller, name: str) -> list[dict[str, Any]]:
    """Runs of a cluster, newest first."""
    return [run.summary() for run in cluster_of(request, name, who).runs()]


@rest.get("/clusters/{name}/runs/{run_id}")
def run(request: Request, who: Caller, name: str, run_id: str) -> dict[str, Any]:
    """One run: its pairs with their states, and why some failed."""
    found = cluster_of(request, name, who).run(run_id)
    pairs = [
        {"host": host, "role": role, "state": state.value}
        for (host, role), state in found.states().states.items()
    ]
    return found.summary() | {"states": pairs, "failures": found.failures()}


@rest.get("/clusters/{name}/runs/{run_id}/events", response_class=StreamingResponse)
async def run_events(request: Request, who: Caller, name: str, run_id: str) -> StreamingResponse:
    """The run's events as server-sent events, from the first to the end of the run."""
    found = await asyncio.to_thread(lambda: cluster_of(request, name, who).run(run_id))
    return StreamingResponse(event_stream(found), media_type="text/event-stream")


async def event_stream(run: Run, idle_s: float = 0.3, most_s: float = 3600) -> AsyncIterator[str]:
    """The log's lines as they come; ends with the run, or when nothing has come for `most_s`."""
    sent, waited = 0, 0.0
    while waited < most_s:
        events = await asyncio.to_thread(run.events)
        for event in events[sent:]:
            data = event.model_dump_json(exclude_none=True)
            yield f"id: {event.sequence}\nevent: {event.event}\ndata: {data}\n\n"
        waited = 0.0 if len(events) > sent else waited + idle_s
        sent = len(events)
        if events and events[-1].event == "end":
            return
        await asyncio.sleep(idle_s)


@rest.post("/diagnose", dependencies=[Depends(caller)])
async def diagnose(
    request: Request, files: Annotated[list[UploadFile], File(description="logs and outputs")]
) -> list[Finding]:
    """Findings in uploaded logs and outputs of tools."""
    return await asyncio.to_thread(podsys_of(request).diagnose, await read_uploads(files))


async def read_uploads(files: list[UploadFile]) -> dict[str, str]:
    """The texts of uploaded files, the last part of huge ones."""
    texts = {}
    for number, file in enumerate(files):
        size = file.size or 0
        await file.seek(max(0, size - MOST_BYTES))
        texts[file.filename or f"file{number + 1}"] = decode(await file.read())
    if not any(text.strip() for text in texts.values()):
        raise BadInput(
            "holds nothing to look at", field="files", do="upload dmesg, lspci -vvv or a tool's output"
        )
    return texts


@rest.post("/stack", dependencies=[Depends(caller)])
def stack(body: StackBody) -> dict[str, Any]:
    """Complete a software stack, or name the facts that do not fit each other."""
    answer = solve(body.stack)
    if isinstance(answer, Explanation):
        return {"fits": False, "conflict": answer.facts, "rules": answer.rules}
    return {"fits": True, "stack": answer}
