"""Nodes that are taken out of use by themselves: with a reason, within a budget, behind a breaker."""

from __future__ import annotations

from l2_aistation.core.cordon import Verdict, decide
from l2_aistation.core.events import Condition
from l2_aistation.core.recovery import HARDWARE
from l2_aistation.supervisor.probing import label_of

from .platform import Platform


def request(platform: Platform, node: str, reason: str) -> Verdict | None:
    """Cordons a node for a reason, unless too many are out already or too many turned bad at once.

    None where it is out already (a person's cordon keeps its reason) or belongs to no pool any more.
    """
    if node in platform.cordons or node not in platform.world.pool.index:
        return None
    now = platform.clock()
    platform.turned_bad.setdefault(node, now)
    mine = [name for name, why in platform.cordons.items() if why in HARDWARE]
    recent = list(platform.turned_bad.values())
    verdict = decide({node: reason}, mine, len(platform.world.pool.facts), recent, now)
    for name, why in verdict.cordon.items():
        platform.cordons[name] = why
        platform.batch.nodes[name] = (True, why)
        platform.world.pool.set_cordoned(name, value=True)
        platform.note("node", None, node=name, change="cordoned", reason=why)
    for name, why in verdict.refused.items():
        platform.note("node", None, node=name, change="not cordoned", reason=reason, why=why)
    return verdict


def heed(platform: Platform, node: str, condition: Condition) -> None:
    """Cordons a node that says of its own hardware that it is bad.

    One that is well again is remembered no more; its cordon stays until somebody has looked at it.
    """
    labels = [label for words in condition.faults if (label := label_of(words)) in HARDWARE]
    if not labels:
        platform.turned_bad.pop(node, None)
    else:
        request(platform, node, labels[0])
