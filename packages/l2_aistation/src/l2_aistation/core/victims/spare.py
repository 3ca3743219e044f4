"""Sparing every victim that is not needed."""

from __future__ import annotations

from collections.abc import Sequence

from .candidates import Candidate
from .trial import Plan, Trial

MOST_TRIED = 16
"""Victims up to which each is tried; more of them were counted node by node already."""

MOST_ADDED = 64
"""Candidates that are tried to make way under a limit of a policy."""


def spared(trial: Trial, chosen: Sequence[Candidate]) -> Plan | None:
    """The plan with no more than needed of some victims (more, where a limit asks for it)."""
    victims = _limits(trial, sorted(chosen, key=lambda item: (item.weight, item.job.id)))
    plan = trial.plan(victims)
    if plan is None or (trial.by_room and len(victims) > MOST_TRIED):
        return plan
    return _without_chunks(trial, plan)


def _limits(trial: Trial, victims: list[Candidate]) -> list[Candidate]:
    """Adds the lightest ones that make way under a limit that still holds the claimant back."""
    refusal = trial.refused(victims)
    if refusal is None:
        return victims
    inside = {item.job.id for item in victims}
    tries = 0
    for item in trial.candidates:
        if item.job.id in inside or tries >= MOST_ADDED:
            continue
        tries += 1
        after = trial.refused([*victims, item])
        if after is None or (after.limit == refusal.limit and after.free > refusal.free):
            victims = [*victims, item]
            refusal = after
            if refusal is None:
                break
    return victims


def _without_chunks(trial: Trial, plan: Plan) -> Plan:
    """Takes out as large pieces as possible, the dearest first, down to single ones."""
    victims = list(plan.victims)
    size = max(len(victims) // 2, 1)
    while True:
        at = len(victims)
        while at > 0:
            start = max(at - size, 0)
            rest = victims[:start] + victims[at:]
            fewer = trial.plan(rest) if rest else None
            if fewer is not None:
                victims, plan = rest, fewer
            at = start
        if size == 1:
            return plan
        size //= 2
