"""Checks a stack, completes it, or explains with a minimal set of facts why it cannot be completed.

The space is small (a few values for each component), so backtracking over known values is exact; the
minimal explanation is found by leaving out one fact after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .rules import RULES, Rule
from .stack import COMPONENTS, Stack, checked, known_good


class Explanation(NamedTuple):
    """Facts that cannot be together (none of them can be left out), and the rules that say so."""

    facts: Stack
    rules: list[str]

    def __str__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        return f"{facts}: {'; '.join(self.rules)}"


def check_stack(stack: Mapping[str, Any]) -> list[Explanation]:
    """Every rule that a stack breaks, with the facts that it reads.  Empty: it fits."""
    facts = checked(stack)
    return [Explanation({name: facts[name] for name in rule.reads}, [rule.says]) for rule in _broken(facts)]


def solve(wanted: Mapping[str, Any]) -> Stack | Explanation:
    """A stack that has all of `wanted` and breaks no rule, else a minimal conflict among `wanted`.

    Whole published stacks are tried first, newest first; then mixtures of their values.
    """
    facts = checked(wanted)
    found = _complete(facts)
    if found is not None:
        return found
    core = dict(facts)
    for name in list(facts):
        fewer = {key: value for key, value in core.items() if key != name}
        if _complete(fewer) is None:
            core = fewer
    rules = [rule.says for rule in _broken(core)]
    return Explanation(core, rules or ["no version in the table of known-good stacks fits all of these"])


def _broken(stack: Stack) -> list[Rule]:
    return [rule for rule in RULES if all(name in stack for name in rule.reads) and not rule.holds(stack)]


def _complete(facts: Stack) -> Stack | None:
    if _broken(facts):
        return None
    for row in known_good():
        if all(facts.get(name, value) == value for name, value in row.items()):
            whole = row | facts
            if not _broken(whole):
                return whole
    open_names = [name for name in COMPONENTS if name not in facts and _values(name, facts)]
    return _search(facts, open_names)


def _search(stack: Stack, open_names: list[str]) -> Stack | None:
    if not open_names:
        return stack
    name, rest = open_names[0], open_names[1:]
    for value in _values(name, stack):
        now = {**stack, name: value}
        if not _broken(now):
            found = _search(now, rest)
            if found is not None:
                return found
    return None


def _values(name: str, stack: Stack) -> list[str]:
    """Values of a component that the solver may choose; what describes the hardware is never chosen.

    Driver and Fabric Manager are released together: each may take the version given for the other.
    """
    if name in ("os", "kernel", "gpu", "nvswitch"):
        return []
    choices = {
        "module": ["open", "proprietary"],
        "fabricmanager": ["none"],
        "gpudirect": ["dma-buf", "peermem", "off"],
    }
    published = [row[name] for row in known_good() if name in row]
    twin = stack.get({"driver": "fabricmanager", "fabricmanager": "driver"}.get(name, ""), "none")
    return list(dict.fromkeys([*published, *choices.get(name, []), *([twin] if twin != "none" else [])]))
