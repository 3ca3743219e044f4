"""Personal data: mail addresses, phone numbers, Chinese identity numbers and bank cards.

Numbers with check digits are believed only when the check digit is right: identity numbers by ISO 7064
MOD 11-2 (GB 11643), cards by Luhn's formula (ISO/IEC 7812).  A number may stand next to hanzi without a
space, never next to another digit or letter.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Collection
from typing import Literal

Kind = Literal["email", "phone", "identity", "card", "ip"]
KINDS: tuple[Kind, ...] = ("email", "identity", "card", "phone", "ip")

BEFORE = r"(?<![0-9A-Za-z_.+-])"
AFTER = r"(?![0-9A-Za-z_])"
PATTERNS: dict[Kind, re.Pattern[str]] = {
    "email": re.compile(
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?\.)+[A-Za-z]{2,24}"
        r"(?![A-Za-z0-9-])"
    ),
    "identity": re.compile(BEFORE + r"[1-9]\d{5}(?:18|19|20)\d{2}[01]\d[0-3]\d{4}[0-9Xx]" + AFTER),
    "card": re.compile(BEFORE + r"[3-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}" + AFTER + r"(?!\.\d)"),
    "phone": re.compile(
        r"(?<![0-9A-Za-z_.-])(?:(?:\+|00)86[ -]?)?1[3-9]\d(?:[ -]?\d{4}){2}"
        + AFTER
        + r"(?!\.\d)"
        + r"|(?<![0-9A-Za-z])\+\d{1,3}[ -]\(?\d{1,4}\)?(?:[ -]\d{2,4}){2,4}"
        + AFTER
        + r"|(?<![0-9A-Za-z-])0\d{2,3}-[2-9]\d{6,7}(?![0-9A-Za-z-])"
    ),
    "ip": re.compile(r"(?<![0-9A-Za-z.])(?:\d{1,3}\.){3}\d{1,3}(?![0-9A-Za-z]|\.\d)"),
}
MASKS = {"email": "<EMAIL>", "phone": "<PHONE>", "identity": "<ID>", "card": "<CARD>", "ip": "<IP>"}
LONG_NUMBER = re.compile(r"\d(?:[ -]?\d){9}")
DOTTED = re.compile(r"\d\.\d")
WEIGHTS = tuple(pow(2, 17 - position, 11) for position in range(17))
REGIONS = frozenset(
    [
        *range(11, 16),
        *range(21, 24),
        *range(31, 38),
        *range(41, 47),
        *range(50, 55),
        *range(61, 66),
        71,
        81,
        82,
        83,
    ]
)
"""First two digits of an identity number: the codes of GB/T 2260, with Taiwan, Hong Kong and Macau."""


def mask(text: str, kinds: Collection[Kind] = KINDS) -> tuple[str, dict[Kind, int]]:
    """The text with every find replaced by its mask, and how many of each kind there were."""
    found: dict[Kind, int] = {}
    present = _possible(text)
    for kind in KINDS:
        if kind in kinds and kind in present:
            text, count = _mask_kind(text, kind)
            if count:
                found[kind] = count
    return text, found


def _possible(text: str) -> set[Kind]:
    """Kinds that can be in the text at all: a quick look that spares most texts the rest."""
    present: set[Kind] = set()
    if "@" in text:
        present.add("email")
    if LONG_NUMBER.search(text):
        present.update(("identity", "card", "phone"))
    if DOTTED.search(text):
        present.add("ip")
    return present


def _mask_kind(text: str, kind: Kind) -> tuple[str, int]:
    count = 0
    valid = CHECKS.get(kind)

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        if valid is not None and not valid(match.group()):
            return match.group()
        count += 1
        return MASKS[kind]

    return PATTERNS[kind].sub(replace, text), count


def is_identity_number(number: str) -> bool:
    """A Chinese resident identity number: region, a date that exists, and the right check character."""
    if len(number) != 18 or not number[:17].isdigit() or int(number[:2]) not in REGIONS:
        return False
    try:
        dt.date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    remainder = (1 - sum(int(digit) * weight for digit, weight in zip(number, WEIGHTS, strict=False))) % 11
    return number[17].upper() == "0123456789X"[remainder]


def is_card_number(number: str) -> bool:
    """A payment card: a known length, an issuer's first digits, and Luhn's check digit."""
    digits = [int(character) for character in number if character.isdigit()]
    if not 14 <= len(digits) <= 19 or len(set(digits)) < 2:
        return False
    doubled = [
        digit if place % 2 == 0 else sum(divmod(2 * digit, 10))
        for place, digit in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0


def is_public_address(address: str) -> bool:
    """An IPv4 address that is somebody's: not private, loopback, reserved or for documentation."""
    try:
        return ipaddress.IPv4Address(address).is_global
    except ValueError:
        return False


CHECKS: dict[Kind, Callable[[str], bool]] = {
    "identity": is_identity_number,
    "card": is_card_number,
    "ip": is_public_address,
}
