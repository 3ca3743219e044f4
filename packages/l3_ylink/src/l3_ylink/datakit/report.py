"""The funnel report: one HTML file with a waterfall, yields by step and reason, samples of the dropped."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from l3_ylink._kit.files import atomic_write
from l3_ylink.documents import DatasetManifest, StepCount

from .decide import Decisions
from .documents.store import Signals, disk
from .plan import RunPlan
from .steps.base import KEPT

SAMPLES = 3
SAMPLE_CHARACTERS = 280
BAR_HEIGHT = 26
WIDTH = 640


@dataclass(frozen=True)
class Bar:
    """One bar of the waterfall: what is left after a step, and what the step took."""

    label: str
    kept: int
    dropped: int
    kept_width: float
    dropped_width: float
    y: int


@dataclass(frozen=True)
class Sample:
    """A dropped document for the report."""

    id: str
    step: str
    reason: str
    value: float
    threshold: float
    other: str | None
    text: str


def waterfall(funnel: list[StepCount]) -> list[Bar]:
    """Bars from the funnel, widths in units of `WIDTH`."""
    most = max((step.seen for step in funnel), default=0) or 1
    return [
        Bar(
            step.step,
            step.kept,
            step.seen - step.kept,
            round(WIDTH * step.kept / most, 1),
            round(WIDTH * (step.seen - step.kept) / most, 1),
            number * BAR_HEIGHT,
        )
        for number, step in enumerate(funnel)
    ]


def samples(plan: RunPlan, signals: Signals, decisions: Decisions) -> list[Sample]:
    """A few dropped documents for each step and reason, the first ones of the input."""
    found: dict[tuple[int, str], list[Sample]] = defaultdict(list)
    for number in range(len(signals.blocks)):
        verdicts = decisions.verdicts(number)
        rows = []
        room = {key: SAMPLES - len(some) for key, some in found.items()}
        for row in (verdicts.step != KEPT).nonzero()[0].tolist():
            key = int(verdicts.step[row]), verdicts.reason[row]
            if room.setdefault(key, SAMPLES) > 0:
                room[key] -= 1
                rows.append(row)
        if not rows:
            continue
        ids = signals.columns(number)["id"]
        for row, text in zip(rows, signals.block_texts(number, rows), strict=True):
            found[int(verdicts.step[row]), verdicts.reason[row]].append(
                Sample(
                    ids[row],
                    plan.recipe.steps[int(verdicts.step[row])].step,
                    verdicts.reason[row],
                    float(verdicts.value[row]),
                    float(verdicts.threshold[row]),
                    decisions.id_of(int(verdicts.other[row])),
                    text[:SAMPLE_CHARACTERS],
                )
            )
    return [sample for _, some in sorted(found.items()) for sample in some]


def write_report(
    plan: RunPlan,
    signals: Signals,
    decisions: Decisions,
    manifest: DatasetManifest,
    instructions: DatasetManifest | None,
) -> Path:
    """Writes `report.html` into the run's folder; the same run gives the same bytes."""
    path = plan.folder / "report.html"
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = environment.get_template("report.html").render(
        manifest=manifest,
        instructions=instructions,
        bars=waterfall(decisions.funnel),
        width=WIDTH,
        bar=BAR_HEIGHT,
        samples=samples(plan, signals, decisions),
        documents=decisions.count,
        kept=decisions.kept_count,
        unlisted=plan.unlisted,
    )
    with disk(path):
        atomic_write(path, html)
    return path
