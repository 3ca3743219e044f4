"""Plots of results as SVG, by Vega-Lite; needs the extra `report`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from l2_aistation._kit.problems import Unavailable

from .results import Floats, Result

POINTS = 120
WIDTH, HEIGHT = 420, 220
INK = "#808890"
MOST_QUEUES = 16
CONFIG = {
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": "#80808040",
        "domainColor": INK,
        "tickColor": INK,
    },
    "legend": {"labelColor": INK, "titleColor": INK},
    "range": {"category": ["#2f6fb5", "#c8553d", "#2f7d5b", "#b58a2f", "#7a4fa3", "#4aa3a2", "#8c564b"]},
}


def check() -> None:
    """`Unavailable` where the extra is not installed."""
    if find_spec("vl_convert") is None:
        raise Unavailable(
            "a report needs vl-convert-python", do="pip install 'l2-aistation[report]', or leave --report out"
        )


def charts(results: Sequence[Result]) -> dict[str, str]:
    """SVG texts by name."""
    return {
        "jct": _cdf(results, "jct_s", "completion time (hours)"),
        "wait": _cdf(results, "wait_s", "waiting (hours)"),
        "held": _over_time(results, "held", "accelerators held"),
        "waiting": _over_time(results, "waiting", "jobs waiting"),
        "queues": _by_queue(results),
    }


def _svg(spec: dict[str, Any]) -> str:
    import vl_convert

    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": CONFIG, **spec}
    text: str = vl_convert.vegalite_to_svg(whole)
    return text


def _color(results: Sequence[Result]) -> dict[str, Any]:
    return {
        "field": "policy",
        "type": "nominal",
        "sort": [result.policy for result in results],
        "title": None,
        "legend": {"orient": "top"},
    }


def _cdf(results: Sequence[Result], name: str, title: str) -> str:
    share = np.linspace(0, 1, POINTS)
    rows = [
        {"policy": result.policy, "x": max(float(value) / 3600, 0.01), "y": float(part)}
        for result in results
        for value, part in zip(_quantiles(getattr(result, name), share), share, strict=True)
    ]
    return _svg(
        {
            "width": WIDTH,
            "height": HEIGHT,
            "data": {"values": rows},
            "mark": {"type": "line", "interpolate": "step-after"},
            "encoding": {
                "x": {"field": "x", "type": "quantitative", "scale": {"type": "log"}, "title": title},
                "y": {
                    "field": "y",
                    "type": "quantitative",
                    "title": "share of jobs",
                    "axis": {"format": "%"},
                },
                "color": _color(results),
            },
        }
    )


def _quantiles(values: Floats, share: Floats) -> Floats:
    return np.asarray(np.quantile(values, share) if len(values) else np.zeros_like(share))


def _over_time(results: Sequence[Result], name: str, title: str) -> str:
    rows = [
        {"policy": result.policy, "x": float(at) / 86_400, "y": float(value)}
        for result in results
        for at, value in zip(result.series["at_s"], result.series[name], strict=True)
    ]
    return _svg(
        {
            "width": WIDTH,
            "height": HEIGHT,
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 1},
            "encoding": {
                "x": {"field": "x", "type": "quantitative", "title": "days"},
                "y": {"field": "y", "type": "quantitative", "title": title},
                "color": _color(results),
            },
        }
    )


def _by_queue(results: Sequence[Result]) -> str:
    jobs: dict[str, float] = {}
    for result in results:
        for queue, row in result.by_queue.items():
            jobs[queue] = max(jobs.get(queue, 0), row["jobs"])
    shown = sorted(jobs, key=lambda queue: (-jobs[queue], queue))[:MOST_QUEUES]
    rows = [
        {"policy": result.policy, "queue": queue, "y": result.by_queue[queue]["wait_mean_h"]}
        for result in results
        for queue in shown
        if queue in result.by_queue
    ]
    return _svg(
        {
            "width": 2 * WIDTH + 60,
            "height": HEIGHT,
            "data": {"values": rows},
            "mark": "bar",
            "encoding": {
                "x": {"field": "queue", "type": "nominal", "sort": shown, "title": "queue"},
                "xOffset": {"field": "policy", "sort": [result.policy for result in results]},
                "y": {"field": "y", "type": "quantitative", "title": "mean waiting (hours)"},
                "color": _color(results),
            },
        }
    )
