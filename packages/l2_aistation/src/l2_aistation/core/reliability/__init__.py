"""What failures cost: checkpoint intervals, spares, goodput.  Pure; the service feeds it what it measured."""

from __future__ import annotations

from .interval import FailureRate, IntervalPlan, daly_interval, plan_interval, waste, young_interval

__all__ = ["FailureRate", "IntervalPlan", "daly_interval", "plan_interval", "waste", "young_interval"]
