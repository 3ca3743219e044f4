"""REST of models, versions, aliases, data sets, audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from l4_mmodel._kit.web import Caller, Operator
from l4_mmodel.service import Mmodel

from .access import Listed, Mine

router = APIRouter(prefix="/api/v1", tags=["registry"])
Row = dict[str, Any]


class RegisterRequest(BaseModel):
    """A manifest on the server's own disk."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1)
    name: str | None = None
    alias: str | None = None
    tags: dict[str, str] = Field(default_factory=dict)


class AliasRequest(BaseModel):
    """Where an alias is to point."""

    model_config = ConfigDict(extra="forbid")

    alias: str
    reason: str = Field(default="", max_length=500)


@router.get("/models")
def list_models(request: Request, tenant: Listed) -> list[Row]:
    """One row a model."""
    mmodel: Mmodel = request.app.state.mmodel
    return mmodel.registry.models(tenant)


@router.post("/models", status_code=201)
def register(body: RegisterRequest, mmodel: Mine, _who: Operator) -> Row:
    """Registers a manifest on the server's disk; operators only, since it reads files there."""
    version = mmodel.register(Path(body.path), name=body.name, alias=body.alias, tags=body.tags)
    return version.as_json()


@router.get("/versions")
def list_versions(
    request: Request,
    tenant: Listed,
    name: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[Row]:
    """Versions, newest first."""
    mmodel: Mmodel = request.app.state.mmodel
    return [version.as_json() for version in mmodel.registry.all(tenant, name, limit=limit)]


@router.get("/versions/{ref}")
def get_version(ref: str, mmodel: Mine) -> Row:
    """A version with its manifest; `ref` is NAME, NAME@3, NAME@alias or a digest."""
    version = mmodel.version(ref)
    return {**version.as_json(), "manifest": version.manifest}


@router.get("/versions/{ref}/lineage")
def get_lineage(ref: str, mmodel: Mine) -> Row:
    """The graph around a version."""
    return mmodel.lineage(ref).as_json()


@router.post("/versions/{ref}/verify")
def verify(ref: str, mmodel: Mine) -> Row:
    """Re-reads the version's files and checks their digests."""
    return mmodel.verify(ref).as_json()


@router.put("/versions/{ref}/alias")
def set_alias(ref: str, body: AliasRequest, mmodel: Mine) -> Row:
    """Points an alias to the version."""
    return mmodel.alias(ref, body.alias, reason=body.reason).as_json()


@router.get("/versions/{ref}/alias-history")
def get_alias_history(ref: str, mmodel: Mine) -> list[Row]:
    """Every move of the model's aliases."""
    return mmodel.alias_history(ref)


@router.delete("/versions/{ref}", status_code=204)
def delete(ref: str, mmodel: Mine) -> None:
    """Removes a version that nothing refers to."""
    mmodel.delete(ref)


@router.get("/datasets")
def list_datasets(request: Request, tenant: Listed) -> list[Row]:
    """Data sets, newest first."""
    mmodel: Mmodel = request.app.state.mmodel
    return [dataset.as_json() for dataset in mmodel.datasets.all(tenant)]


@router.get("/datasets/{ref}")
def get_dataset(ref: str, mmodel: Mine) -> Row:
    """A data set with its manifest."""
    dataset = mmodel.datasets.get(ref, mmodel.tenant)
    return {**dataset.as_json(), "manifest": dataset.manifest}


@router.get("/audit")
def get_audit(
    request: Request, tenant: Listed, limit: Annotated[int, Query(ge=1, le=1000)] = 200
) -> list[Row]:
    """Who did what, newest first."""
    mmodel: Mmodel = request.app.state.mmodel
    return mmodel.store.audit_rows(tenant, limit)


@router.get("/whoami")
def whoami(who: Caller) -> Row:
    """The caller."""
    return {"tenant": who.tenant, "role": who.role, "name": who.name}
