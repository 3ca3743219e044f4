"""Pages: the fleet by rack and leaf, a node and its timeline, leases, tenants, metering, audit."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, Response

from l0_infra_os._kit.web import Caller, Operator, link, render
from l0_infra_os.core.lifecycle import IN_FLIGHT
from l0_infra_os.service import leasing, operations, views
from l0_infra_os.service.views import NodeView

from .rest import TheSite, actor_of

pages = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

DIGEST_SHOWN = len("sha256:") + 12
#: How a state is coloured: by a named set, so that a new state needs a decision here.
BADGES = {
    "enrolled": "idle",
    "available": "idle",
    "leased": "info",
    "active": "ok",
    "quarantined": "bad",
    "condemned": "bad",
    **{state.value: "warn" for state in IN_FLIGHT if state != "condemned"},
    "reserved": "info",
    "provisioning": "warn",
    "degraded": "bad",
    "releasing": "warn",
    "ended": "idle",
}


@pages.get("/")
def fleet(request: Request, site: TheSite, who: Caller) -> Response:
    """The fleet map."""
    nodes = views.nodes(site, tenant=who.scope())
    return render(request, "fleet.html", racks=_by_place(nodes), nodes=nodes, badges=BADGES)


@pages.get("/fragments/fleet")
def fleet_fragment(request: Request, site: TheSite, who: Caller) -> Response:
    """The part of the fleet page that moves."""
    nodes = views.nodes(site, tenant=who.scope())
    return render(request, "fleet_map.html", racks=_by_place(nodes), nodes=nodes, badges=BADGES)


@pages.get("/nodes/{node_id}")
def node(request: Request, site: TheSite, who: Caller, node_id: str) -> Response:
    """A node, its ports and its timeline."""
    row = views.node(site, node_id, tenant=who.scope())
    timeline = views.timeline(site, node_id, tenant=who.scope())
    return render(request, "node.html", node=row, timeline=timeline, badges=BADGES)


@pages.post("/nodes/{node_id}/power/{action}")
def power(request: Request, site: TheSite, who: Caller, node_id: str, action: str) -> Response:
    """A power button."""
    operations.power(site, node_id, action, tenant=who.scope(), actor=actor_of(who))  # type: ignore[arg-type]
    return _go(request, f"/nodes/{node_id}")


@pages.post("/nodes/{node_id}/repair")
def repair(request: Request, site: TheSite, who: Operator, node_id: str) -> Response:
    """The repair button."""
    operations.repair(site, node_id, actor=actor_of(who))
    return _go(request, f"/nodes/{node_id}")


@pages.get("/leases")
def leases(request: Request, site: TheSite, who: Caller) -> Response:
    """Leases, and a form for a new one."""
    return render(
        request,
        "leases.html",
        leases=views.leases(site, tenant=who.scope(), ended=True)[::-1],
        tenants=views.tenants(site, tenant=who.scope()),
        badges=BADGES,
    )


@pages.get("/fragments/leases")
def leases_fragment(request: Request, site: TheSite, who: Caller) -> Response:
    """The part of the leases page that moves."""
    rows = views.leases(site, tenant=who.scope(), ended=True)[::-1]
    return render(request, "lease_table.html", leases=rows, badges=BADGES)


@pages.post("/leases")
def create_lease(
    request: Request,
    site: TheSite,
    who: Caller,
    nodes: Annotated[int, Form()],
    spares: Annotated[int, Form()] = 0,
    tenant: Annotated[str, Form()] = "",
) -> Response:
    """The form's lease: an operator names the tenant, a tenant is its own."""
    owner = tenant if who.is_operator else who.tenant
    leasing.lease(site, owner, nodes=nodes, spares=spares, actor=actor_of(who))
    return _go(request, "/leases")


@pages.post("/leases/{lease_id}/release")
def release(request: Request, site: TheSite, who: Caller, lease_id: str) -> Response:
    """The release button."""
    leasing.release(site, lease_id, tenant=who.scope(), actor=actor_of(who))
    return _go(request, "/leases")


@pages.get("/tenants")
def tenants(request: Request, site: TheSite, who: Caller) -> Response:
    """Tenants with quota and use."""
    return render(request, "tenants.html", tenants=views.tenants(site, tenant=who.scope()))


@pages.get("/meter")
def meter(request: Request, site: TheSite, who: Caller) -> Response:
    """Node-hours by tenant and state."""
    return render(request, "meter.html", rows=views.meter(site, tenant=who.scope()), badges=BADGES)


@pages.get("/audit")
def audit(request: Request, site: TheSite, who: Caller) -> Response:
    """Who did what."""
    rows = views.audit(site, tenant=who.scope(), last=200)[::-1]
    told = [{**row, "detail": _told(row["detail"])} for row in rows]
    return render(request, "audit.html", rows=told)


def _told(detail: dict[str, Any]) -> str:
    """The detail of an audit row in words: no brackets, digests as short as people compare them."""
    words = []
    for name, value in detail.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        words.append(f"{name}: {text[:DIGEST_SHOWN] if text.startswith('sha256:') else text}")
    return " · ".join(word for word in words if not word.endswith((": ", ": None")))


def _by_place(nodes: list[NodeView]) -> dict[str, dict[str, list[NodeView]]]:
    places: dict[str, dict[str, list[NodeView]]] = defaultdict(lambda: defaultdict(list))
    for row in sorted(nodes, key=lambda node: (node.rack or "~", node.leaf or "~", node.id)):
        places[row.rack or ""][row.leaf or ""].append(row)
    return places


def _go(request: Request, path: str) -> Response:
    """Back to a page, for a plain form and for htmx alike."""
    target = link(request, path)
    if request.headers.get("hx-request"):
        return Response(status_code=204, headers={"HX-Redirect": target})
    return Response(status_code=303, headers={"Location": target})
