"""A job-spec that holds together: checked, with its demand, its text and its digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rfc8785

from l2_aistation import launchers
from l2_aistation._kit.documents import digest_of
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.demand import Demand, demand_of
from l2_aistation.documents import JobSpec
from l2_aistation.store.rows import dump

from .times import seconds_of

MOST_IN_ARRAY = 10_000
MOST_ARRAY_BYTES = 64_000_000
MOST_LABELS = 64


@dataclass(frozen=True, slots=True)
class CheckedSpec:
    """A spec that holds together, with its demand, its text and its digest."""

    spec: JobSpec
    demand: Demand
    text: str
    digest: str


def check_spec(value: Any, names: Mapping[str, str] | None = None) -> CheckedSpec:
    """A spec from its JSON value; a value without an envelope gets one.  `BadInput` names the field.

    `names` gives the ids of the jobs of the same submission, which a dependency may name by name.
    """
    from l2_aistation import __version__

    if isinstance(value, dict) and "producer" not in value:
        value = {"producer": {"name": "l2-aistation", "version": __version__}, **value}
    spec = JobSpec.parse(value, where="job-spec")
    for dependency in spec.depends_on:
        dependency.job = (names or {}).get(dependency.job, dependency.job)
    launchers.check(spec)
    demand = demand_of(spec)
    _check_paths(spec)
    _check_labels(spec)
    document = spec.as_json()
    try:
        text, digest = dump(document), digest_of(document)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise BadInput(
            f"the job-spec holds what JSON cannot carry: {error}",
            field="job-spec",
            do="use numbers that are finite and below 2^53, and text without lone surrogates",
        ) from error
    _check_array(spec, text)
    return CheckedSpec(spec, demand, text, digest)


def fields_of(spec: JobSpec) -> dict[str, Any]:
    """What the scheduler knows of a job from its spec, by the names of `Job`'s fields."""
    return {
        "time_s": spec.limits.time_s,
        "expected_s": spec.limits.expected_s,
        "labels": spec.labels,
        "preemptible": spec.preemptible,
        "not_before": None if spec.not_before is None else seconds_of(spec.not_before),
        "depends_on": tuple((item.job, item.condition) for item in spec.depends_on),
        "reservation": spec.reservation,
        "most_running": None if spec.array is None else spec.array.most_running,
    }


def _check_paths(spec: JobSpec) -> None:
    if spec.checkpoint is not None:
        path = spec.checkpoint.path
        if path.startswith("/") or ".." in path.split("/"):
            raise BadInput(
                f"{path!r} leaves the shared folder",
                field="checkpoint.path",
                do="give a path relative to the shared folder, without '..'",
            )
    for number, group in enumerate(spec.tasks):
        texts = [*group.command, *group.environment, *group.environment.values()]
        if any("\0" in text for text in texts):
            raise BadInput("a text has a NUL character", field=f"tasks.{number}", do="take it out")
        bad = [name for name in group.environment if not name or "=" in name]
        if bad:
            raise BadInput(f"{bad[0]!r} is no name of a variable", field=f"tasks.{number}.environment")


def _check_labels(spec: JobSpec) -> None:
    if len(spec.labels) > MOST_LABELS:
        raise BadInput(f"has {len(spec.labels)} labels, {MOST_LABELS} at most", field="labels")
    if any("\0" in text for text in (*spec.labels, *spec.labels.values())):
        raise BadInput("a text has a NUL character", field="labels", do="take it out")


def _check_array(spec: JobSpec, text: str) -> None:
    if spec.array is None:
        return
    if spec.array.count > MOST_IN_ARRAY:
        raise BadInput(f"must be {MOST_IN_ARRAY} at most", field="array.count", do="submit several arrays")
    if spec.array.count * len(text) > MOST_ARRAY_BYTES:
        raise BadInput(
            f"{spec.array.count} specs of {len(text)} bytes are more than {MOST_ARRAY_BYTES} bytes",
            field="array.count",
            do="keep data out of the spec, or submit several arrays",
        )
