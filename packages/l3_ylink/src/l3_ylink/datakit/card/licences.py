"""What the licences of the sources ask for, put together.

A data set of documents under several licences is a collection: each document keeps its own.  What is put
together is what somebody who passes the whole on has to do, and what nobody may do with the whole.  The
table is a summary of the licences' own conditions, not legal advice; a licence that is not in it is said
to be unknown, and then nothing is claimed of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

ATTRIBUTION = "attribution"
SHARE_ALIKE = "share-alike"
NO_COMMERCE = "non-commercial"
NO_CHANGE = "no-derivatives"
UNKNOWN = "unknown"
CONDITIONS = (ATTRIBUTION, SHARE_ALIKE, NO_COMMERCE, NO_CHANGE, UNKNOWN)
"""From the lightest to the heaviest; UNKNOWN counts as heaviest."""

FREE: frozenset[str] = frozenset()
NAMED = frozenset({ATTRIBUTION})
SHARED = frozenset({ATTRIBUTION, SHARE_ALIKE})

#: Families by the beginning of an SPDX identifier, the longest that fits counts.
FAMILIES: dict[str, frozenset[str]] = {
    "CC0-": FREE,
    "PDDL-": FREE,
    "Unlicense": FREE,
    "WTFPL": FREE,
    "0BSD": FREE,
    "MIT-0": FREE,
    "LicenseRef-public-domain": FREE,
    "MIT": NAMED,
    "BSD-": NAMED,
    "ISC": NAMED,
    "Apache-": NAMED,
    "PSF-": NAMED,
    "Python-": NAMED,
    "Zlib": NAMED,
    "BSL-": NAMED,
    "Artistic-": NAMED,
    "ODC-By-": NAMED,
    "CDLA-Permissive-": NAMED,
    "CC-BY-": NAMED,
    "OGL-UK-": NAMED,
    "etalab-": NAMED,
    "GPL-": SHARED,
    "LGPL-": SHARED,
    "AGPL-": SHARED,
    "GFDL-": SHARED,
    "MPL-": SHARED,
    "EPL-": SHARED,
    "EUPL-": SHARED,
    "OFL-": SHARED,
    "ODbL-": SHARED,
    "CDLA-Sharing-": SHARED,
    "CC-BY-SA-": SHARED,
    "CC-BY-NC-": NAMED | {NO_COMMERCE},
    "CC-BY-ND-": NAMED | {NO_CHANGE},
    "CC-BY-NC-SA-": SHARED | {NO_COMMERCE},
    "CC-BY-NC-ND-": NAMED | {NO_COMMERCE, NO_CHANGE},
}

HUB_NAMES = """
    apache-2.0 mit afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear cc cc0-1.0
    cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0
    cc-by-nd-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0
    cdla-sharing-1.0 cdla-permissive-1.0 cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1
    eupl-1.2 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl lgpl-2.1 lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl
    osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib pddl"""
ON_HUB = frozenset(HUB_NAMES.split())
TOKEN = re.compile(r"\(|\)|[^\s()]+")


class RollUp(NamedTuple):
    """What the licences of a data set ask for together."""

    licences: list[str]
    conditions: list[str]
    warnings: list[str]


def conditions(expression: str) -> frozenset[str]:
    """What an SPDX expression asks for: of alternatives (OR) the lightest, of AND all together."""
    tokens = TOKEN.findall(expression)
    try:
        found = _either(tokens)
    except IndexError:
        return frozenset({UNKNOWN})
    return found if not tokens else frozenset({UNKNOWN})


def _either(tokens: list[str]) -> frozenset[str]:
    choices = [_both(tokens)]
    while tokens and tokens[0].upper() == "OR":
        tokens.pop(0)
        choices.append(_both(tokens))
    return min(choices, key=weight)


def _both(tokens: list[str]) -> frozenset[str]:
    found = _one(tokens)
    while tokens and tokens[0].upper() == "AND":
        tokens.pop(0)
        found |= _one(tokens)
    return found


def _one(tokens: list[str]) -> frozenset[str]:
    word = tokens.pop(0)
    if word == "(":
        found = _either(tokens)
        if tokens.pop(0) != ")":
            raise IndexError
        return found
    if tokens and tokens[0].upper() == "WITH":
        del tokens[:2]  # an exception takes conditions away; those of the licence are on the safe side
    return of_licence(word)


def of_licence(identifier: str) -> frozenset[str]:
    """What one licence asks for."""
    plain = identifier.lower()
    fits = [name for name in FAMILIES if plain.startswith(name.lower())]
    return FAMILIES[max(fits, key=len)] if fits else frozenset({UNKNOWN})


def weight(found: frozenset[str]) -> tuple[int, int]:
    """How heavy conditions are: the heaviest first, then how many."""
    return max((CONDITIONS.index(name) for name in found), default=-1), len(found)


def roll_up(expressions: Iterable[str]) -> RollUp:
    """The licences of the sources put together, with what to look at."""
    licences = sorted(set(expressions))
    together: frozenset[str] = frozenset()
    warnings = []
    for licence in licences:
        mine = conditions(licence)
        together |= mine
        if UNKNOWN in mine:
            warnings.append(f"{licence}: not a known SPDX licence; look at its terms before passing data on")
        if NO_CHANGE in mine:
            warnings.append(f"{licence}: forbids derivatives; cleaned and masked texts may be such")
    copyleft = [licence for licence in licences if SHARE_ALIKE in conditions(licence)]
    if len(copyleft) > 1:
        warnings.append(
            f"{', '.join(copyleft)}: share-alike licences that differ: pass the documents on as a "
            "collection, each under its own"
        )
    return RollUp(licences, [name for name in CONDITIONS if name in together], warnings)


def hub_licence(expressions: Iterable[str]) -> list[str]:
    """The licences by the hub's identifiers; `other` where it has none."""
    found = set()
    for expression in expressions:
        plain = re.sub(r"\bWITH\s+\S+", "", expression)
        words = [word for word in TOKEN.findall(plain) if word not in ("(", ")", "AND", "OR")]
        found |= {_on_hub(word) for word in words}
    return sorted(found - {"other"}) + ["other"] * ("other" in found)


def _on_hub(identifier: str) -> str:
    plain = identifier.removesuffix("-or-later").removesuffix("-only").removesuffix("+").lower()
    family = re.sub(r"-[\d.]+$", "", plain)
    return next((name for name in (plain, family) if name in ON_HUB), "other")
