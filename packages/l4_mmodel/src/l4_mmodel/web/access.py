"""Whose models a request is about: a user's own tenant, an operator's choice."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from l4_mmodel._kit.problems import NotFound
from l4_mmodel._kit.tokens import NAME
from l4_mmodel._kit.web import Caller
from l4_mmodel.service import Mmodel

Tenant = Annotated[str | None, Query(description="operators only: act for this tenant", pattern=NAME.pattern)]


def mine(request: Request, who: Caller, tenant: Tenant = None) -> Mmodel:
    """The caller's view; another tenant's is as if it were not there."""
    mmodel: Mmodel = request.app.state.mmodel
    if who.is_operator:
        return mmodel.of(tenant or mmodel.settings.tenant, who.name)
    if tenant not in (None, who.tenant):
        raise NotFound(f"no tenant {tenant!r}")
    return mmodel.of(who.tenant, who.name)


def listed(who: Caller, tenant: Tenant = None) -> str | None:
    """The tenant that a list is restricted to; None is every tenant, for operators."""
    if who.is_operator:
        return tenant
    if tenant not in (None, who.tenant):
        raise NotFound(f"no tenant {tenant!r}")
    return who.tenant


Mine = Annotated[Mmodel, Depends(mine)]
Listed = Annotated[str | None, Depends(listed)]
