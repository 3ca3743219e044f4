"""A submission from its JSON value to its answer: what the short way and the documented route share."""

from __future__ import annotations

from typing import Any

from l2_aistation._kit.problems import BadInput
from l2_aistation._kit.tokens import Principal
from l2_aistation.service import Service
from l2_aistation.service.platform import Platform
from l2_aistation.service.specs import CheckedSpec, check_spec
from l2_aistation.service.submission import submit_many, submit_spec

MOST_AT_ONCE = 2000


async def take(
    service: Service, who: Principal, value: Any, *, tenant: str | None = None, key: str | None = None
) -> dict[str, Any]:
    """Submits a spec; answers when it is durable."""
    checked = check_spec(value)
    return await service.acall(lambda platform: submit_spec(platform, who, checked, tenant=tenant, key=key))


async def take_many(
    service: Service, who: Principal, value: Any, *, tenant: str | None = None, key: str | None = None
) -> dict[str, Any]:
    """Submits `{"jobs": [spec, ...]}`, all or none; a dependency may name another job of it by name."""
    specs = value.get("jobs") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(specs, list) or not specs:
        raise BadInput("needs a list of job-specs, and nothing else", field="jobs")
    if len(specs) > MOST_AT_ONCE:
        raise BadInput(f"{len(specs)} jobs, {MOST_AT_ONCE} at most", field="jobs", do="submit them in parts")
    given = [str(spec.get("name", "")) if isinstance(spec, dict) else "" for spec in specs]
    ids = [service.platform.new_id(name) for name in given]
    names = _once(given, ids)
    checked = [_check_in(number, spec, names) for number, spec in enumerate(specs)]

    def together(platform: Platform) -> dict[str, Any]:
        return {"jobs": submit_many(platform, who, checked, ids, tenant=tenant, key=key)}

    return await service.acall(together)


def _once(given: list[str], ids: list[str]) -> dict[str, str]:
    """The ids of the names that stand there once."""
    names = dict(zip(given, ids, strict=True))
    seen: set[str] = set()
    for name in given:
        if name in seen:
            names.pop(name, None)
        seen.add(name)
    return names


def _check_in(number: int, value: Any, names: dict[str, str]) -> CheckedSpec:
    try:
        return check_spec(value, names)
    except BadInput as problem:
        problem.field = f"jobs.{number}.{problem.field}" if problem.field else f"jobs.{number}"
        raise
