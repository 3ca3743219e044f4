"""The rates of a finished run, from its ledger and its stored blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from l3_ylink._kit.problems import NotFound
from l3_ylink.datakit.documents.store import TEXT_BYTES, Signals
from l3_ylink.datakit.explain import DECISIONS, open_run
from l3_ylink.datakit.plan import RunPlan

from .ledger import Ledger
from .model import Estimate, Rates, estimate, fit
from .published import DATA_JUICER_MINHASH, DATATROVE_MB_S, DOUBLING, GROWTH, MDFS_IN

LEAST_WARM = 3
"""Blocks from which only those are counted in which nothing was loaded or compiled."""
TOLERANCE = 0.03
"""How far the fitted law may be from a published figure."""


class Compared(NamedTuple):
    """A published figure beside the model's."""

    what: str
    published: str
    model: float
    ok: bool


def cost_of(folder: Path, input_bytes: float, cores: int) -> Estimate:
    """What the recipe of a finished run would cost over `input_bytes` of such input on `cores` cores."""
    return estimate(rates_of(folder), input_bytes, cores)


def rates_of(folder: Path) -> Rates:
    """A run's rates; `NotFound` where its costs were not noted."""
    plan = open_run(folder)
    tasks, stages = Ledger(folder).read()
    noted = {block.number: tasks.get(("measure", block.number)) for block in plan.blocks}
    costs = [cost for cost in noted.values() if cost is not None]
    warm = [cost for cost in costs if cost.warm]
    costs = warm if len(warm) >= LEAST_WARM else costs
    if not costs:
        raise NotFound(
            "the run has noted no costs", field=str(folder), do="run the recipe again into a new folder"
        )
    known = [cost.block for cost in costs]
    text, kept = _sizes(folder, plan)
    names = list(dict.fromkeys(name for cost in costs for name in cost.seconds))
    seconds = {name: np.array([cost.seconds.get(name, 0.0) for cost in costs]) for name in names}
    tokens = sum(
        value for (stage, _), cost in tasks.items() if stage == "tokens" for value in cost.seconds.values()
    )
    return Rates(
        input_bytes=np.array([float(cost.bytes) for cost in costs]),
        text_bytes=text[known],
        kept_bytes=kept[known],
        seconds=seconds,
        export_seconds={"text": stages.get("text", 0.0), "tokens": tokens},
        global_seconds={"decide": stages.get("decide", 0.0)},
        whole_bytes=float(sum(block.bytes for block in plan.blocks)),
    )


def _sizes(folder: Path, plan: RunPlan) -> tuple[Any, Any]:
    """Text bytes, and text bytes kept, of each block."""
    signals = Signals(plan.store, len(plan.blocks))
    text, kept = np.zeros(len(plan.blocks)), np.zeros(len(plan.blocks))
    with pq.ParquetFile(folder / DECISIONS) as file:
        for number, part in enumerate(signals.blocks):
            if not part.rows:
                continue
            size = np.asarray(signals.columns(number)[TEXT_BYTES])
            stays = np.array(file.read_row_group(number, columns=["kept"]).column(0).to_pylist(), bool)
            text[part.number] += size.sum()
            kept[part.number] += size[stays].sum()
    return text, kept


def checks() -> list[Compared]:
    """The model beside what others published."""
    law = fit(DATA_JUICER_MINHASH)
    found = [
        Compared(
            f"data-juicer MinHash, {row.bytes / 1e12:g} TB on {row.cores} cores: minutes",
            f"{row.minutes:g}",
            round(law.minutes(row.bytes, row.cores), 2),
            abs(law.minutes(row.bytes, row.cores) / row.minutes - 1) <= TOLERANCE,
        )
        for row in DATA_JUICER_MINHASH
    ]
    growth = [law.minutes(5 * size, cores) / law.minutes(size, cores)
              for size in (200e9, 1e12) for cores in (640, 1280)]  # fmt: skip
    halves = [law.minutes(size, 1280) / law.minutes(size, 640) for size in (200e9, 1e12, 5e12)]
    for what, values, (low, high) in (
        ("the same: times as long for 5 times the data", growth, GROWTH),
        ("the same: share of the time with twice the cores", halves, DOUBLING),
    ):
        for value in (min(values), max(values)):
            ok = low * (1 - TOLERANCE) <= value <= high * (1 + TOLERANCE)
            found.append(Compared(what, f"{low:g} to {high:g}", round(value, 3), ok))
    hours = MDFS_IN / (DATATROVE_MB_S * 1e6) / 3600
    published = 1.06e6
    found.append(
        Compared(
            "866 TB at datatrove's rate: core-hours",
            f"{published:g}",
            round(hours),
            abs(hours / published - 1) <= TOLERANCE,
        )
    )
    return found
