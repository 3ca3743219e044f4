"""What a finding says, and how rules read texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field

from l1_podsys._kit.documents import Part

MOST_EVIDENCE = 8
MOST_LINE = 300


class Evidence(Part):
    """One line of one text; lines count from 1."""

    file: str
    line: int
    text: str


class Finding(Part):
    """One fault with its cause, what shows it, what to do, and how sure that is (0 to 1)."""

    fault: str
    title: str
    cause: str
    fix: str
    confidence: float = Field(ge=0, le=1)
    where: str = Field(default="", description="PCI address, device or interface, if one is named")
    evidence: list[Evidence] = Field(default_factory=list)
    symptoms: list[str] = Field(default_factory=list, description="faults that this one explains")
    gain: str = Field(default="", description="what the fix should bring, where it can be said")


@dataclass(frozen=True)
class Hit:
    """A line that a pattern met."""

    match: re.Match[str]
    evidence: Evidence

    def __getitem__(self, group: int | str) -> str:
        return self.match[group] or ""


class Texts:
    """All texts of one diagnosis, by name."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.lines = {name: text.splitlines() for name, text in texts.items()}

    def find(self, pattern: str | re.Pattern[str]) -> Iterator[Hit]:
        """Every line that the pattern meets, in order."""
        compiled = re.compile(pattern)
        for name, lines in self.lines.items():
            for number, line in enumerate(lines, 1):
                found = compiled.search(line)
                if found:
                    yield Hit(found, evidence(name, number, line))

    def following(self, hit: Hit, count: int) -> list[Evidence]:
        """The lines after one."""
        start = hit.evidence.line
        rows = self.lines[hit.evidence.file][start : start + count]
        return [evidence(hit.evidence.file, start + n + 1, row) for n, row in enumerate(rows)]


def evidence(file: str, line: int, text: str) -> Evidence:
    """A line as evidence, its length bounded."""
    return Evidence(file=file, line=line, text=text.strip()[:MOST_LINE])


def shown(hits: list[Hit]) -> list[Evidence]:
    """The first lines of many, and the last."""
    rows = [hit.evidence for hit in hits]
    return rows if len(rows) <= MOST_EVIDENCE else [*rows[: MOST_EVIDENCE - 1], rows[-1]]
