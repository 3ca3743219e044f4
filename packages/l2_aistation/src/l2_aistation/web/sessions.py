"""How the owner of a session comes in.  It holds a secret: nobody else of the tenant is told."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from l2_aistation._kit.problems import Forbidden, NotFound
from l2_aistation.launchers import session_of
from l2_aistation.service import views

from .common import Caller, Platform

router = APIRouter(prefix="/api/v1")


@router.get("/jobs/{job}/session")
def session(job: str, who: Caller, service: Platform) -> dict[str, Any]:
    """Address and token of a running session, to the job's owner and to operators."""
    row = views.job_row(service, who, job)
    if not (who.is_operator or (who.tenant == row["tenant"] and who.name == row["owner"])):
        raise Forbidden(f"the session of {job} is {row['owner']}'s", do="ask for one of your own")
    found = session_of(service.settings.shared, row["id"], row["attempt"])
    if found is None or row["state"] not in ("starting", "running"):
        raise NotFound(
            f"{job} has no session that is up",
            why="it has no preset notebook, has not started yet, or is over",
            do="look at `aistation job` and `aistation logs`",
        )
    return found
