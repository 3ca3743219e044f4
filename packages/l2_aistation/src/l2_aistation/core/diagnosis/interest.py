"""Which rules a line may concern: looked up once for each form of line, not once a line.

Logs repeat themselves: without its digits nearly every line is one of a few forms.  A form is searched
for the rules' needles once; all other lines of that form cost a translation and a look into a table.
"""

from __future__ import annotations

from typing import NamedTuple

from .rules import RULES, Rule

TRACEBACK = "Traceback (most recent call last)"
_MOST_FORMS = 100_000
_SEQUENCE = "SeqNum="
_SERIES = ("teration", "step", "loss")
_NO_DIGITS = str.maketrans("", "", "0123456789")


class Interest(NamedTuple):
    """What has to be looked at in a line of some form."""

    rules: tuple[Rule, ...]
    traceback: bool
    sequence: bool
    series: bool


def _without_digits(rule: Rule) -> tuple[str, ...]:
    """Needles as they stand in a form; one that was nothing but digits would be in every form."""
    return tuple(needle.translate(_NO_DIGITS) for needle in rule.needles)


_NEEDLES = tuple((rule, _without_digits(rule)) for rule in RULES)
_NOTHING = Interest((), traceback=False, sequence=False, series=False)
_forms: dict[str, Interest] = {}


def interest_of(line: str) -> Interest:
    """What to look at in this line; memory is bounded, whatever is read."""
    form = line.translate(_NO_DIGITS)
    known = _forms.get(form)
    if known is None:
        if len(_forms) >= _MOST_FORMS:
            _forms.clear()
        known = _forms[form] = _look(form)
    return known


def _look(form: str) -> Interest:
    rules = tuple(rule for rule, needles in _NEEDLES if any(needle in form for needle in needles))
    found = Interest(rules, TRACEBACK in form, _SEQUENCE in form, any(word in form for word in _SERIES))
    return found if any(found) else _NOTHING
