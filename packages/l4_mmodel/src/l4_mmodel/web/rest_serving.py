"""REST of deployments, keys and usage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from l4_mmodel._kit.problems import Forbidden
from l4_mmodel._kit.web import Caller
from l4_mmodel.security.keys import SCOPES, Keys
from l4_mmodel.service import Mmodel
from l4_mmodel.serving.gateway.ledger import Ledger, totals

from .access import Listed, Mine

router = APIRouter(prefix="/api/v1", tags=["serving"])
Row = dict[str, Any]


class DeployRequest(BaseModel):
    """The version to serve; with `url`, through that OpenAI-compatible address."""

    model_config = ConfigDict(extra="forbid")

    version: str
    name: str | None = None
    runtime: str | None = None
    reason: str = Field(default="", max_length=500)
    url: str | None = None
    upstream_model: str | None = None
    key_file: str | None = Field(default=None, description="on the server; operators only")


class KeyRequest(BaseModel):
    """A new key; None is no limit."""

    model_config = ConfigDict(extra="forbid")

    name: str
    scopes: list[str] = Field(default=list(SCOPES), min_length=1, max_length=len(SCOPES))
    models: list[str] | None = Field(default=None, max_length=1000)
    requests_per_minute: int | None = Field(default=None, ge=1, le=10**9)
    tokens_per_minute: int | None = Field(default=None, ge=1, le=10**9)
    parallel: int | None = Field(default=None, ge=1, le=10**6)
    lifetime_s: float | None = Field(default=None, gt=0, le=10**10)


@router.get("/deployments")
def list_deployments(request: Request, tenant: Listed) -> list[Row]:
    """Deployments, newest first."""
    mmodel: Mmodel = request.app.state.mmodel
    return [row.as_json() for row in mmodel.deployed.all(tenant)]


@router.post("/deployments", status_code=202)
def deploy(body: DeployRequest, mmodel: Mine, who: Caller) -> Row:
    """Asks for a version to be served; its state tells when it is ready."""
    if body.url is not None:
        if not who.is_operator:
            raise Forbidden("only an operator may name an upstream", do="ask an operator")
        key_file = Path(body.key_file) if body.key_file else None
        model = body.upstream_model or body.version
        return mmodel.deploy_url(
            body.version, body.url, model=model, name=body.name, key_file=key_file
        ).as_json()
    return mmodel.deploy(body.version, name=body.name, runtime=body.runtime, reason=body.reason).as_json()


@router.get("/deployments/{name}")
def get_deployment(name: str, mmodel: Mine) -> Row:
    """The `deployment/v1` document."""
    return mmodel.deployment(name).as_json()


@router.delete("/deployments/{name}", status_code=202)
def stop(name: str, mmodel: Mine) -> Row:
    """Ends a deployment after the requests under way."""
    mmodel.stop(name)
    return mmodel.deployment(name).as_json()


@router.get("/deployments/{name}/latency")
def latency(name: str, request: Request, mmodel: Mine) -> list[Row]:
    """The last requests: when, status, milliseconds to the first token and in all."""
    mmodel.deployment(name)
    ledger: Ledger = request.app.state.ledger
    return ledger.chart(mmodel.tenant, name)


@router.get("/keys")
def list_keys(request: Request, tenant: Listed) -> list[Row]:
    """Keys, without the keys themselves."""
    mmodel: Mmodel = request.app.state.mmodel
    return [key.as_json() for key in Keys(mmodel.store, tenant, "").all()]


@router.post("/keys", status_code=201)
def create_key(body: KeyRequest, mmodel: Mine) -> Row:
    """Makes a key; this answer is the only time that it can be read."""
    key = mmodel.keys.create(
        body.name, scopes=body.scopes, models=body.models, requests_per_minute=body.requests_per_minute,
        tokens_per_minute=body.tokens_per_minute, parallel=body.parallel, lifetime_s=body.lifetime_s,
    )  # fmt: skip
    return {"name": key.name, "key": key.secret}


@router.delete("/keys/{name}", status_code=204)
def revoke_key(name: str, mmodel: Mine) -> None:
    """Ends a key."""
    mmodel.keys.revoke(name)


@router.get("/usage")
def usage(request: Request, tenant: Listed) -> list[Row]:
    """Requests and tokens by key and model."""
    mmodel: Mmodel = request.app.state.mmodel
    return totals(mmodel.store, tenant)
