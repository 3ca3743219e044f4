"""Usage over REST: accelerator-hours by tenant, queue, user or model, as JSON or CSV."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse

from l2_aistation.core.metering import Dimension
from l2_aistation.service import times
from l2_aistation.service.metering import Metering, Report, parse_time

from .common import Caller, Platform

router = APIRouter(prefix="/api/v1")
Moment = Annotated[str, Query(max_length=40, description="RFC 3339, a date, or back from now: 12h, 7d")]


def report_of(who: Caller, service: Platform, by: Dimension, since: str, until: str) -> Report:
    """The report that a query asks for; the last day where it names no window."""
    now = service.platform.clock()
    window = [
        parse_time(text, field, now) if text else None for text, field in ((since, "since"), (until, "until"))
    ]
    return Metering(service.store, service.platform).report(who, by, window[0], window[1])


@router.get("/usage")
def usage(
    who: Caller, service: Platform, by: Dimension = "tenant", since: Moment = "", until: Moment = ""
) -> dict[str, Any]:
    """Accelerator-hours held, used and idle within a window, and what became of the whole pool."""
    return report_of(who, service, by, since, until).as_json(times.moment)


@router.get("/usage.csv", response_class=PlainTextResponse)
def usage_csv(
    who: Caller, service: Platform, by: Dimension = "tenant", since: Moment = "", until: Moment = ""
) -> PlainTextResponse:
    """The rows of the same report as CSV."""
    text = report_of(who, service, by, since, until).as_csv()
    headers = {"Content-Disposition": f'attachment; filename="usage-by-{by}.csv"'}
    return PlainTextResponse(text, media_type="text/csv; charset=utf-8", headers=headers)
