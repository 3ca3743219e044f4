"""Which nodes are taken out of use by themselves, and when nobody but a person may do so.  Pure.

A cordon has a reason and a budget: no more than a share of the cluster is out at a time.  When many nodes
turn bad within a short time the cause is rarely the nodes: the breaker opens and nothing more is cordoned
until a person has looked (or the window has passed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BUDGET = 0.2
"""Of all nodes, so many may be out by themselves; one always may."""

BREAKER = 0.5
WINDOW_S = 300.0
"""Half of the nodes bad within five minutes is not the nodes' fault."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`cordon`: node -> reason, to do now; `refused`: node -> why not, to tell people."""

    cordon: Mapping[str, str]
    refused: Mapping[str, str]
    open: bool


def decide(
    bad: Mapping[str, str],
    cordoned: Sequence[str],
    nodes: int,
    recent: Sequence[float],
    now: float,
    *,
    budget: float = BUDGET,
    breaker: float = BREAKER,
) -> Verdict:
    """Which of the `bad` nodes (node -> reason) are cordoned now, in the order given.

    `cordoned`: those that are out by themselves already; `recent`: when nodes turned bad, these included.
    """
    fresh = sum(now - at <= WINDOW_S for at in recent)
    waiting = {node: reason for node, reason in bad.items() if node not in cordoned}
    if nodes > 1 and fresh > 1 and fresh >= breaker * nodes:
        why = (
            f"{fresh} of {nodes} nodes turned bad within {WINDOW_S / 60:.0f} minutes: look at what they share"
        )
        return Verdict({}, dict.fromkeys(waiting, why), open=True)
    room = max(1, math.floor(budget * nodes)) - len(cordoned)
    chosen = dict(list(waiting.items())[: max(0, room)])
    why = f"{len(cordoned) + len(chosen)} of {nodes} nodes are out already (budget {100 * budget:.0f} %)"
    refused = {node: why for node in waiting if node not in chosen}
    return Verdict(chosen, refused, open=False)
