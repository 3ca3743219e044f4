"""What failures cost: checkpoint intervals, goodput.  Pure; the service feeds it what it measured."""

from __future__ import annotations

from .figures import PHASES, Figures, Life, figures_of
from .interval import FailureRate, IntervalPlan, daly_interval, plan_interval, waste, young_interval

__all__ = [
    "PHASES",
    "FailureRate",
    "Figures",
    "IntervalPlan",
    "Life",
    "daly_interval",
    "figures_of",
    "plan_interval",
    "waste",
    "young_interval",
]
