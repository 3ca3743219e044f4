"""The report's page, rendered: the same run gives the same bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from l3_ylink._kit.files import atomic_write
from l3_ylink.datakit.card.licences import roll_up
from l3_ylink.datakit.decide import Decisions
from l3_ylink.datakit.documents.store import TEXT_BYTES, Signals, disk
from l3_ylink.datakit.plan import RunPlan
from l3_ylink.datakit.steps.base import KEPT
from l3_ylink.documents import DatasetManifest

from .curves import Curve, Tally, write_curves
from .dials import dials
from .messages import CHINESE
from .samples import samples
from .waterfall import BAR_HEIGHT, WIDTH, stages, waterfall

CURVES = "curves.json"
CURVE_WIDTH, CURVE_HEIGHT = 150, 56
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def write_report(
    plan: RunPlan,
    signals: Signals,
    decisions: Decisions,
    manifest: DatasetManifest,
    instructions: DatasetManifest | None,
) -> Path:
    """Writes `report.html` into the run's folder."""
    path = plan.folder / "report.html"
    html, found = render(plan, signals, decisions, manifest, instructions)
    write_curves(plan.folder / CURVES, found)
    with disk(path):
        atomic_write(path, html)
    return path


def render(
    plan: RunPlan,
    signals: Signals,
    decisions: Decisions,
    manifest: DatasetManifest,
    instructions: DatasetManifest | None,
) -> tuple[str, list[Curve]]:
    """The whole page, and the threshold curves in it."""
    tally = Tally(dials(plan.recipe))
    left, read, languages = _totals(plan, signals, decisions, tally)
    found = tally.curves()
    html = _environment().get_template("report.html").render(
        manifest=manifest,
        instructions=instructions,
        bars=waterfall(decisions.funnel),
        stages=stages(decisions.funnel, plan.recipe.stages, left),
        left=left,
        width=WIDTH,
        bar=BAR_HEIGHT,
        samples=samples(plan.recipe, signals, decisions),
        documents=decisions.count,
        kept=decisions.kept_count,
        alarms=decisions.alarms,
        unlisted=plan.unlisted,
        read=read,
        languages=languages,
        licences=roll_up(source.licence for source in manifest.sources),
        curves=found,
        recipe=yaml.safe_dump(
            plan.recipe.model_dump(mode="json"), allow_unicode=True, sort_keys=False, width=100
        ),
    )  # fmt: skip
    return html, found


def _totals(
    plan: RunPlan, signals: Signals, decisions: Decisions, tally: Tally
) -> tuple[list[int], dict[str, Counter[str]], Counter[str]]:
    """Bytes of text before each step and at the end, kept documents by source, and by language."""
    steps = len(plan.recipe.steps)
    taken = np.zeros(steps + 1, np.int64)
    sources: dict[str, Counter[str]] = {"kept": Counter()}
    languages = Counter[str]()
    for number in range(len(signals.blocks)):
        columns, verdicts = signals.columns(number), decisions.verdicts(number)
        tally.add(columns, verdicts.step)
        place = np.where(verdicts.step == KEPT, steps, verdicts.step)
        size = np.asarray(columns[TEXT_BYTES], np.float64)
        taken += np.bincount(place, weights=size, minlength=steps + 1).astype(np.int64)
        kept = np.flatnonzero(verdicts.alive).tolist()
        names = columns["source"]
        sources["kept"].update(names[row] for row in kept)
        if "language" in columns:
            spoken = columns["language"]
            languages.update(spoken[row] for row in kept)
    before = int(taken.sum()) - np.concatenate([[0], np.cumsum(taken[:steps])])
    return before.tolist(), sources, Counter(dict(languages.most_common()))


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent.parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        t=both, line=line, spot=spot, curve_width=CURVE_WIDTH, curve_height=CURVE_HEIGHT
    )
    environment.filters.update(size=size_of, share=share)
    return environment


def both(text: str) -> Markup:
    """A text in both languages; the page shows the one that is chosen."""
    chinese = CHINESE.get(text, text)
    return Markup('<span lang="en">{}</span><span lang="zh">{}</span>').format(text, chinese)


def size_of(count: float) -> str:
    """Bytes in words: 1.5 MB."""
    unit = 0
    while count >= 1000 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 else f"{count:.3g} {UNITS[unit]}"


def share(part: float, whole: float) -> str:
    """A share in percent; a dash where there is no whole."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def line(curve: Curve) -> str:
    """The points of an SVG polyline."""
    return " ".join(f"{spot(curve, x):.1f},{CURVE_HEIGHT * (1 - y):.1f}" for x, y in curve.points)


def spot(curve: Curve, value: float) -> float:
    """Where a value lies on a curve's axis."""
    low, high = curve.low, curve.high
    if curve.logarithmic:
        part = float(np.log(max(value, low) / low) / np.log(high / low))
    else:
        part = (value - low) / (high - low)
    return round(CURVE_WIDTH * min(max(part, 0.0), 1.0), 1)
