"""REST: the same words as the command line.  A tenant sees and changes only what is its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from l0_infra_os._kit.problems import BadInput, NotFound
from l0_infra_os._kit.tokens import Principal
from l0_infra_os._kit.web import Caller, Operator
from l0_infra_os.documents import NodeInventory
from l0_infra_os.ports import Credentials, Image
from l0_infra_os.service import enrolment, leasing, operations, planning, views
from l0_infra_os.service.site import Site
from l0_infra_os.service.views import LeaseView, NodeView
from l0_infra_os.version import __version__

Text = Annotated[str, Field(min_length=1, max_length=255)]


class ProblemBody(BaseModel):
    """RFC 9457 problem details, with the field at fault and what to try."""

    type: str
    title: str
    status: int
    detail: str | None = None
    field: str | None = None
    try_: str | None = Field(default=None, alias="try")


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemBody"}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: _problem("the body is no JSON"),
    401: {"model": ProblemBody, **_problem("no token, or a wrong one")},
    403: _problem("known, and not allowed"),
    404: _problem("there is no such thing, or it is another tenant's"),
    409: _problem("its state does not allow this"),
    422: _problem("the request is off; the field is named"),
    500: _problem("it was tried and failed"),
    503: _problem("a device does not answer"),
}

rest = APIRouter(prefix="/api/v1", responses=PROBLEMS)


def site_of(request: Request) -> Site:
    """The site that this application serves."""
    site: Site = request.app.state.site
    return site


TheSite = Annotated[Site, Depends(site_of)]


def actor_of(who: Principal) -> str:
    """How a caller is named in the audit log."""
    return f"{who.name}@{who.tenant}"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DeclaredBody(_Body):
    """What the operator says of a machine."""

    address: Text
    name: str = Field(default="", max_length=63)
    macs: list[str] = Field(default_factory=list, max_length=64)
    leaf: str = Field(default="", max_length=63)
    rack: str = Field(default="", max_length=63)

    def as_declared(self) -> enrolment.Declared:
        return enrolment.Declared(self.address, self.name, tuple(self.macs), self.leaf, self.rack)


class EnrollBody(_Body):
    """Where BMCs are and how to sign in."""

    addresses: list[Text] = Field(default_factory=list, max_length=256)
    username: Text
    password: SecretStr
    declared: list[DeclaredBody] = Field(default_factory=list, max_length=10000)


class EnrolledBody(BaseModel):
    """What an enrolment did."""

    new: list[str]
    known: list[str]
    silent: list[str]


class NodesBody(_Body):
    """Some nodes; None is all that apply."""

    nodes: list[Text] | None = Field(default=None, max_length=10000)


class PowerBody(_Body):
    """A power action."""

    action: Literal["on", "off", "cycle"]


class ReasonBody(_Body):
    """Why."""

    reason: str = Field(min_length=1, max_length=500)


class TenantBody(_Body):
    """A tenant and its quota; null is no limit."""

    name: Text
    quota_nodes: int | None = Field(default=None, ge=0, le=10**6)


class LeaseBody(_Body):
    """What a tenant asks for."""

    tenant: Text | None = None
    nodes: int = Field(ge=1, le=10**6)
    spares: int = Field(default=0, ge=0, le=10**6)
    flavor: str | None = Field(default=None, max_length=63)


class ProvisionBody(_Body):
    """What the nodes get."""

    image: Text
    ssh_keys: list[Annotated[str, Field(max_length=10000)]] = Field(min_length=1, max_length=100)


class GrowBody(_Body):
    """How many more members."""

    nodes: int = Field(ge=1, le=10**6)


class ShrinkBody(_Body):
    """Which nodes go back."""

    nodes: list[Text] = Field(min_length=1, max_length=10000)


class PowerAnswer(BaseModel):
    """The power state seen just after."""

    power: str


class Started(BaseModel):
    """The nodes that are now in flight."""

    nodes: list[str]


# --------------------------------------------------------------------------------------- nodes


@rest.get("/nodes")
def list_nodes(site: TheSite, who: Caller) -> list[NodeView]:
    """All nodes; a tenant's own."""
    return views.nodes(site, tenant=who.scope())


@rest.get("/nodes/{node_id}")
def get_node(site: TheSite, who: Caller, node_id: str) -> dict[str, Any]:
    """One node with facts and ports."""
    return views.node(site, node_id, tenant=who.scope())


@rest.get("/nodes/{node_id}/timeline")
def get_timeline(site: TheSite, who: Caller, node_id: str) -> list[dict[str, Any]]:
    """The states of a node in order."""
    return views.timeline(site, node_id, tenant=who.scope())


@rest.post("/nodes/{node_id}/power")
def power_node(site: TheSite, who: Caller, node_id: str, body: PowerBody) -> PowerAnswer:
    """Switches a node through its BMC."""
    seen = operations.power(site, node_id, body.action, tenant=who.scope(), actor=actor_of(who))
    return PowerAnswer(power=seen)


@rest.post("/nodes/{node_id}/quarantine", status_code=202)
def quarantine_node(site: TheSite, who: Operator, node_id: str, body: ReasonBody) -> Started:
    """Takes a faulty node out of service."""
    replacement = operations.quarantine(site, node_id, reason=body.reason, actor=actor_of(who))
    return Started(nodes=[node_id, *([replacement] if replacement else [])])


@rest.post("/nodes/{node_id}/repair", status_code=202)
def repair_node(site: TheSite, who: Operator, node_id: str) -> Started:
    """Brings a quarantined node back."""
    operations.repair(site, node_id, actor=actor_of(who))
    return Started(nodes=[node_id])


@rest.delete("/nodes/{node_id}", status_code=204)
def forget_node(site: TheSite, who: Operator, node_id: str) -> None:
    """Removes a node from the site."""
    operations.forget(site, node_id, actor=actor_of(who))


@rest.post("/enroll")
def enroll(site: TheSite, who: Operator, body: EnrollBody) -> EnrolledBody:
    """Takes in the machines whose BMCs answer, all or none."""
    done = enrolment.enroll(
        site,
        body.addresses,
        Credentials(body.username, body.password.get_secret_value()),
        declared=[row.as_declared() for row in body.declared],
        actor=actor_of(who),
    )
    return EnrolledBody(new=done.new, known=done.known, silent=done.silent)


@rest.post("/inspect", status_code=202)
def inspect(site: TheSite, who: Operator, body: NodesBody) -> Started:
    """Starts inspections."""
    return Started(nodes=operations.inspect(site, body.nodes, actor=actor_of(who)))


# ------------------------------------------------------------------------------------- tenancy


@rest.get("/tenants")
def list_tenants(site: TheSite, who: Caller) -> list[dict[str, Any]]:
    """Tenants; a tenant sees itself."""
    return views.tenants(site, tenant=who.scope())


@rest.post("/tenants", status_code=201)
def create_tenant(site: TheSite, who: Operator, body: TenantBody) -> dict[str, Any]:
    """Makes a tenant, or sets its quota."""
    leasing.create_tenant(site, body.name, quota_nodes=body.quota_nodes, actor=actor_of(who))
    return views.tenants(site, tenant=body.name)[0]


@rest.delete("/tenants/{name}", status_code=204)
def remove_tenant(site: TheSite, who: Operator, name: str) -> None:
    """Removes a tenant that holds nothing."""
    leasing.remove_tenant(site, name, actor=actor_of(who))


@rest.get("/leases")
def list_leases(site: TheSite, who: Caller, *, ended: bool = False) -> list[LeaseView]:
    """Open leases, or all."""
    return views.leases(site, tenant=who.scope(), ended=ended)


@rest.post("/leases", status_code=201)
def create_lease(site: TheSite, who: Caller, body: LeaseBody) -> LeaseView:
    """Sets nodes aside for a tenant, all or none."""
    tenant = body.tenant or who.tenant
    if not who.may_see(tenant):
        raise NotFound(f"no tenant {tenant!r}")
    lease_id = leasing.lease(
        site, tenant, nodes=body.nodes, spares=body.spares, flavor=body.flavor, actor=actor_of(who)
    )
    return views.lease(site, lease_id)


@rest.get("/leases/{lease_id}")
def get_lease(site: TheSite, who: Caller, lease_id: str) -> LeaseView:
    """One lease."""
    return views.lease(site, lease_id, tenant=who.scope())


@rest.delete("/leases/{lease_id}", status_code=202)
def release_lease(site: TheSite, who: Caller, lease_id: str) -> LeaseView:
    """Gives a lease back: isolated first, then erased."""
    leasing.release(site, lease_id, tenant=who.scope(), actor=actor_of(who))
    return views.lease(site, lease_id)


@rest.get("/leases/{lease_id}/plan")
def plan_provision(
    site: TheSite, who: Caller, lease_id: str, image: Annotated[str, Query(min_length=1, max_length=255)]
) -> list[dict[str, Any]]:
    """What provisioning would do."""
    return planning.plan_provision(site, lease_id, image=image, tenant=who.scope())


@rest.post("/leases/{lease_id}/provision", status_code=202)
def provision(site: TheSite, who: Caller, lease_id: str, body: ProvisionBody) -> LeaseView:
    """Starts the provisioning of the waiting nodes."""
    leasing.provision(
        site,
        lease_id,
        image=body.image,
        ssh_keys=body.ssh_keys,
        tenant=who.scope(),
        actor=actor_of(who),
    )
    return views.lease(site, lease_id)


@rest.post("/leases/{lease_id}/grow")
def grow(site: TheSite, who: Caller, lease_id: str, body: GrowBody) -> LeaseView:
    """Adds members to a lease."""
    leasing.grow(site, lease_id, nodes=body.nodes, tenant=who.scope(), actor=actor_of(who))
    return views.lease(site, lease_id)


@rest.post("/leases/{lease_id}/shrink", status_code=202)
def shrink(site: TheSite, who: Caller, lease_id: str, body: ShrinkBody) -> LeaseView:
    """Gives some nodes back."""
    leasing.shrink(site, lease_id, body.nodes, tenant=who.scope(), actor=actor_of(who))
    return views.lease(site, lease_id)


# ------------------------------------------------------------------------------------- reading


@rest.get("/images")
def list_images(site: TheSite, _who: Caller) -> list[Image]:
    """The images that can be provisioned."""
    return site.images.list()


@rest.get("/inventory", response_model_exclude_none=True)
def get_inventory(
    site: TheSite, who: Caller, tenant: Annotated[str | None, Query(max_length=63)] = None
) -> NodeInventory:
    """`node-inventory/v1` of a tenant; an operator's without a tenant is the whole site's."""
    wanted = tenant if who.is_operator else (tenant or who.tenant)
    if wanted is not None and not who.may_see(wanted):
        raise NotFound(f"no tenant {wanted!r}")
    return views.inventory(site, tenant=wanted, version=__version__)


Moment = Annotated[float | None, Query(ge=0, le=1e11, description="seconds since 1970")]


@rest.get("/meter")
def get_meter(site: TheSite, who: Caller, since: Moment = None, until: Moment = None) -> list[dict[str, Any]]:
    """Node-seconds by tenant and state."""
    if since is not None and until is not None and until < since:
        raise BadInput("is before since", field="until")
    return views.meter(site, since=since or 0.0, until=until, tenant=who.scope())


@rest.get("/audit")
def get_audit(
    site: TheSite, who: Caller, last: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[dict[str, Any]]:
    """The newest rows of the audit log."""
    return views.audit(site, tenant=who.scope(), last=last)


@rest.get("/events", response_class=StreamingResponse)
async def events(request: Request, site: TheSite, _who: Caller) -> StreamingResponse:
    """Server-sent events: `change` whenever a node or a lease has changed."""

    async def stream() -> AsyncIterator[str]:
        mark = None
        while request.app.state.running and not await request.is_disconnected():
            seen = await run_in_threadpool(views.newest_change, site)
            if seen != mark:
                mark = seen
                yield f"event: change\ndata: {seen[0]}.{seen[1]}\n\n"
            await asyncio.sleep(1)

    return StreamingResponse(stream(), media_type="text/event-stream")
