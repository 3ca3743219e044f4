"""Personal data: mail and network addresses, phones, Chinese identity numbers, cards, plates, passports.

Numbers with check digits are believed only when the check digit is right: identity numbers by ISO 7064
MOD 11-2 (GB 11643) with region and date, cards by Luhn's formula (ISO/IEC 7812) with the lengths of their
issuer.  A passport has no check digit: it is believed after a word for one.  A number may stand next to
hanzi without a space, never next to another digit or letter.
"""

from __future__ import annotations

import bisect
import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple

from .seeds import COLONS, DOTTED, MAIL, NUMBER, PLATE, PROVINCES, seeds

Kind = Literal["email", "phone", "identity", "card", "ip", "plate", "passport"]
KINDS: tuple[Kind, ...] = ("email", "identity", "card", "phone", "ip", "plate", "passport")
MASKS: dict[Kind, bytes] = {
    "email": b"<EMAIL>",
    "phone": b"<PHONE>",
    "identity": b"<ID>",
    "card": b"<CARD>",
    "ip": b"<IP>",
    "plate": b"<PLATE>",
    "passport": b"<PASSPORT>",
}


class Found(NamedTuple):
    """One find: its kind and its place in the text's UTF-8 bytes."""

    kind: Kind
    start: int
    end: int


BEFORE = rb"(?<![0-9A-Za-z_.+-])"
AFTER = rb"(?![0-9A-Za-z_])(?!\.[0-9])"
IDENTITY = re.compile(BEFORE + rb"[1-9][0-9]{5}(?:18|19|20)[0-9]{2}[01][0-9][0-3][0-9]{4}[0-9Xx]" + AFTER)
CARD = re.compile(
    BEFORE
    + rb"(?<![0-9][ -])[1-9][0-9]{3}([ -]?)[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}(?:\1[0-9]{1,3})?(?![ -][0-9])"
    + AFTER
)
NOT_A_PHONE_BEFORE = re.compile(
    rb"(?:stamp|time|total|size|bytes|offset|count|[^a-z]id|[a-z_]=)[ :=]{0,3}\Z", re.IGNORECASE
)
PHONE_BEFORE = re.compile(rb"(?:tel|phone|mobile|cell|contact)[a-z_]*[ :=]{0,3}\Z", re.IGNORECASE)
MOBILE = (
    rb"(?:(?<![0-9A-Za-z_.+-])(?:\(?(?:00)?86\)?[ -]?)?|(?<![0-9A-Za-z])(?:\+|\(\+)86\)?[ -]?)"
    rb"1(?:3[0-9]|4[014-9]|5[0-35-9]|6[2567]|7[0-8]|8[0-9]|9[0-35-9])(?:[ -]?[0-9]{4}){2}"
    + AFTER
    + rb"(?!-[0-9A-Za-z])"
)
LANDLINE = (
    rb"(?<![0-9A-Za-z_.-])(?:\+86[ -]?)?\(?0(?:10|2[0-57-9]|[3-9][0-9]{2})(?:\)[ -]?|[ -])"
    rb"[2-9][0-9]{2,3}[ -]?[0-9]{4}(?![0-9A-Za-z])(?!-[0-9]{2}(?![0-9]))"
)
COUNTRY = (
    rb"(?<![0-9A-Za-z])\+(?:1|7|2[07]|2[2-6][0-9]|21[12368]|29[0179]|3[0-469]|3[578][0-9]|4[013-9]|42[013]"
    rb"|5[1-8]|5[09][0-9]|6[0-6]|6[789][0-9]|8[124]|85[02356]|88[06]|9[0-58]|96[0-8]|97[0-7]|99[2-68])"
)
ABROAD = (
    rb"(?:[ .-]?(?:\([0-9]{1,4}\)[ -]?|[0-9]{1,4}[ .-])(?:[0-9]{2,4}[ .-]){1,4}[0-9]{2,4}"
    rb"|[ .-]?[0-9]{3,4}[ .-][0-9]{4}|[0-9]{8,11})" + AFTER
)
PHONE = re.compile(MOBILE + rb"|" + LANDLINE + rb"|" + COUNTRY + ABROAD)
PASSPORT = re.compile(
    rb"(?<![0-9A-Za-z])(?:E[A-HJ-NP-Z0-9][0-9]{7}|[GDSPKH][0-9]{8}|[PDS]E[0-9]{7}"
    rb"|[HMCW][0-9]{8}(?:[0-9]{2})?)(?![0-9A-Za-z])"
)
PASSPORT_WORDS = tuple(
    word.encode() for word in ("护照", "護照", "通行证", "回乡证", "台胞证", "证件号", "passport", "Passport")
)
PASSPORT_NEAR = 48
MAIL_LOCAL = re.compile(rb"[A-Za-z0-9](?:[A-Za-z0-9._%+-]{0,63})\Z")
MAIL_DOMAIN = re.compile(
    rb"@((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?\.)+([A-Za-z]{2,24}))(?![A-Za-z0-9-])"
)
NOT_A_DOMAIN = frozenset(
    b"png jpg jpeg gif svg webp bmp ico css js json html htm xml txt service socket target timer mount "
    b"slice scope device".split()
)
NOT_A_PERSON = frozenset((b"git", b"svn", b"hg"))
NOT_BEFORE_MAIL = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._%+-/")
ADDRESS_4 = re.compile(rb"(?<![0-9A-Za-z.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])")
VERSION_BEFORE = re.compile(
    "(?:version|release|\\bver|\\boid|\\bv|版本|版本号|版号|第)s?[\\s.:：=]{0,4}\\Z".encode(), re.IGNORECASE
)
SMALL = 32
"""Four numbers all below are a section or a version as likely as an address: words around must tell."""
ADDRESS_WORDS = re.compile(
    "(?:\\bip|inet|addr|host|server|dns|ping|from|gateway|proxy|resolver|client|login|地址|服务器|伺服器|网关|主机|登录|来自|访问)"
    "[^\\n]{0,24}\\Z|(?://|@|=)\\Z".encode(),
    re.IGNORECASE,
)
ADDRESS_6 = re.compile(rb"(?<![0-9A-Za-z:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![0-9A-Za-z:])")
GROUP = re.compile(rb"[0-9A-Fa-f]{3,4}")
SEPARATOR = rb"(?: |-|\xc2\xb7|\xe2\x80\xa2|\xef\xbd\xa5)?"
NUMBER_PLATE = re.compile(
    rb"(?:" + "|".join(PROVINCES).encode() + rb")[A-HJ-NP-Z]" + SEPARATOR + rb"(?:"
    rb"[ABCDEFGHJK][A-HJ-NP-Z0-9][0-9]{4}|[0-9]{5}[ABCDEFGHJK]"
    rb"|(?=[A-Z0-9]*[0-9][A-Z0-9]*[0-9])[A-HJ-NP-Z0-9]{5}"
    rb"|(?=[A-Z0-9]*[0-9])[A-HJ-NP-Z0-9]{4}" + "(?:挂|学|警|港|澳|领|使)".encode() + rb")(?![0-9A-Za-z])"
)
"""A letter for the city, then five of letters and digits, six with a new-energy letter at one end."""

WEIGHTS = tuple(pow(2, 17 - position, 11) for position in range(17))
REGIONS = frozenset(
    (
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
    )
)
"""First two digits of an identity number: the codes of GB/T 2260, with Taiwan, Hong Kong and Macau."""

YEARS = range(1850, 2031)
ISSUERS: tuple[tuple[int, int, tuple[int, ...]], ...] = (
    (300_000, 305_999, (14,)),
    (340_000, 349_999, (15,)),
    (352_800, 358_999, (16, 19)),
    (360_000, 369_999, (14,)),
    (370_000, 379_999, (15,)),
    (380_000, 399_999, (14,)),
    (400_000, 499_999, (16, 19)),
    (500_000, 509_999, (16, 19)),
    (510_000, 559_999, (16, 19)),
    (601_100, 601_199, (16, 19)),
    (600_000, 601_099, (16, 17, 18, 19)),
    (620_000, 629_999, (16, 17, 18, 19)),
    (644_000, 659_999, (16, 19)),
    (222_100, 272_099, (16,)),
    (690_000, 690_999, (16, 18)),
    (810_000, 817_199, (16, 19)),
    (940_000, 949_999, (16, 17, 18, 19)),
    (955_800, 955_999, (16, 17, 18, 19)),
    (980_000, 989_999, (16, 17, 18, 19)),
)
"""First six digits and the lengths that their issuers use: the networks' ranges, and Chinese banks' own."""


def mask(text: str, kinds: Collection[Kind] = KINDS) -> tuple[str, dict[Kind, int]]:
    """The text with every find replaced by its mask, and how many of each kind there were."""
    data = text.encode("utf-8", "surrogatepass")
    finds = find(data, kinds)
    if not finds:
        return text, {}
    parts: list[bytes] = []
    done, counts = 0, dict.fromkeys((found.kind for found in finds), 0)
    for kind, start, end in finds:
        parts += (data[done:start], MASKS[kind])
        done = end
        counts[kind] += 1
    parts.append(data[done:])
    return b"".join(parts).decode("utf-8", "surrogatepass"), counts


def find(data: bytes, kinds: Collection[Kind] = KINDS) -> list[Found]:
    """Personal data in a text's UTF-8 bytes, in order, none over another."""
    finds: list[Found] = []
    done = 0
    for place, seed in seeds(data):
        for found in LOOKS[seed](data, place):
            if found.kind in kinds and found.start >= done:
                finds.append(found)
                done = found.end
    return finds


def _mail(data: bytes, at: int) -> Iterator[Found]:
    domain = MAIL_DOMAIN.match(data, at)
    if domain is None or domain[2].lower() in NOT_A_DOMAIN:
        return
    local = MAIL_LOCAL.search(data, max(0, at - 65), at)
    if local and local[0] not in NOT_A_PERSON and data[local.start() - 1 : local.start()] not in ALNUM:
        yield Found("email", local.start(), domain.end())


ALNUM = frozenset(
    bytes((byte,)) for byte in b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._%+-/"
)


def _numbers(data: bytes, start: int) -> Iterator[Found]:
    """Numbers in a run of digits: identity first, then cards, phones and passports, in their order."""
    end = RUN.match(data, start).end()  # type: ignore[union-attr]
    begin = max(0, start - 6)
    finds = [
        *_matches("identity", IDENTITY, data, begin, end, is_identity_number),
        *_matches("card", CARD, data, begin, end, is_card_number),
        *_matches("phone", PHONE, data, begin, end, None),
        *_matches("passport", PASSPORT, data, begin, end, None),
    ]
    taken: list[Found] = []
    for found in finds:
        if all(found.end <= other.start or found.start >= other.end for other in taken):
            bisect.insort(taken, found, key=lambda each: each.start)
    yield from taken


RUN = re.compile(rb"[0-9](?:[0-9]|[ .)-](?=[0-9])|\) (?=[0-9]))*[Xx]?")


def _matches(
    kind: Kind,
    pattern: re.Pattern[bytes],
    data: bytes,
    start: int,
    end: int,
    valid: Callable[[bytes], bool] | None,
) -> Iterator[Found]:
    for match in pattern.finditer(data, start, min(len(data), end + 4)):
        if match.end() > end or (valid is not None and not valid(match[0])):
            continue
        if kind == "passport" and not _after_a_word(data, match.start()):
            continue
        if kind == "phone" and match[0].isdigit() and _after_a_measure(data, match.start()):
            continue
        yield Found(kind, match.start(), match.end())


def _after_a_word(data: bytes, place: int) -> bool:
    before = data[max(0, place - PASSPORT_NEAR) : place]
    return any(word in before for word in PASSPORT_WORDS)


def _after_a_measure(data: bytes, place: int) -> bool:
    """Whether a bare number stands after a word for a time, a size or the like."""
    start = max(0, place - 16)
    return bool(NOT_A_PHONE_BEFORE.search(data, start, place)) and not PHONE_BEFORE.search(data, start, place)


def _address_4(data: bytes, start: int) -> Iterator[Found]:
    found = ADDRESS_4.match(data, start)
    if found is None:
        yield from _numbers(data, start)
    elif is_public_address(found[0]) and not VERSION_BEFORE.search(data, max(0, start - 16), start):
        small = all(int(part) < SMALL for part in found[0].split(b"."))
        ported = data[found.end() : found.end() + 1] in (b":", b"/")
        if not small or ported or ADDRESS_WORDS.search(data, max(0, start - 40), start):
            yield Found("ip", found.start(), found.end())


def _address_6(data: bytes, colon: int) -> Iterator[Found]:
    for match in ADDRESS_6.finditer(data, max(0, colon - 4), colon + 40):
        if GROUP.search(match[0]) and is_public_address(match[0]):
            yield Found("ip", match.start(), match.end())
            return


def _plate(data: bytes, start: int) -> Iterator[Found]:
    found = NUMBER_PLATE.match(data, start)
    if found:
        yield Found("plate", found.start(), found.end())


LOOKS: dict[int, Callable[[bytes, int], Iterator[Found]]] = {
    MAIL: _mail,
    NUMBER: _numbers,
    DOTTED: _address_4,
    COLONS: _address_6,
    PLATE: _plate,
}


def is_identity_number(number: str | bytes) -> bool:
    """A Chinese resident identity number: region, a date that exists, and the right check character."""
    number = number if isinstance(number, str) else number.decode("ascii")
    if len(number) != 18 or not number[:17].isdigit() or int(number[:2]) not in REGIONS:
        return False
    if int(number[6:10]) not in YEARS:
        return False
    try:
        dt.date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    remainder = (1 - sum(int(digit) * weight for digit, weight in zip(number, WEIGHTS, strict=False))) % 11
    return number[17].upper() == "0123456789X"[remainder]


def is_card_number(number: str | bytes) -> bool:
    """A payment card: an issuer's first digits, one of its lengths, and Luhn's check digit."""
    number = number if isinstance(number, str) else number.decode("ascii")
    digits = [int(character) for character in number if character.isdigit()]
    if not 14 <= len(digits) <= 19 or len(set(digits)) < 2:
        return False
    head = int("".join(map(str, digits[:6])))
    if not any(first <= head <= last and len(digits) in lengths for first, last, lengths in ISSUERS):
        return False
    doubled = [
        digit if place % 2 == 0 else sum(divmod(2 * digit, 10))
        for place, digit in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0


def is_public_address(address: str | bytes) -> bool:
    """An IP address that is somebody's: not private, loopback, reserved or for documentation."""
    try:
        read = ipaddress.ip_address(address if isinstance(address, str) else address.decode("ascii"))
    except ValueError:
        return False
    return read.is_global and not read.is_multicast
