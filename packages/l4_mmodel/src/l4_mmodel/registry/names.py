"""How models and versions are named: `NAME`, `NAME@3`, `NAME@alias`, `sha256:…`.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from l4_mmodel._kit.problems import BadInput

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
ALIAS = re.compile(r"^[a-z][a-z0-9-]{0,62}$")
DIGEST = re.compile(r"^sha256:[0-9a-f]{64}$")


@dataclass(frozen=True)
class Ref:
    """What a user wrote: exactly one of `digest`, or `name` with at most one of number and alias."""

    name: str | None = None
    number: int | None = None
    alias: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        if self.digest is not None:
            return self.digest
        which = self.alias if self.number is None else self.number
        return f"{self.name}" if which is None else f"{self.name}@{which}"


def parse_ref(text: str) -> Ref:
    """A reference to a version; `NAME` alone means its newest."""
    if DIGEST.match(text):
        return Ref(digest=text)
    name, at, which = text.partition("@")
    check_name(name)
    if not at:
        return Ref(name=name)
    if which.isascii() and which.isdigit() and int(which) > 0:
        return Ref(name=name, number=int(which))
    check_alias(which)
    return Ref(name=name, alias=which)


def check_name(name: str) -> str:
    """`name`, if a model or data set may be called so."""
    if not NAME.match(name):
        raise BadInput(f"{name!r} is not a name", field="name", do="use letters, digits, '.', '_', '-'")
    return name


def check_alias(alias: str) -> str:
    """`alias`, if it is a word; numbers are versions."""
    if not ALIAS.match(alias):
        raise BadInput(f"{alias!r} is not an alias", field="alias", do="use a-z, 0-9, '-', a letter first")
    return alias
