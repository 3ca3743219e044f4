"""Finds signs in streams of log lines, fast and in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from .interest import Interest, interest_of
from .rules import EXCEPTION, NOT_THE_USERS
from .series import Series
from .times import Moment, moment_of

_BLOCK_LINES = 2000
_MOST_EVIDENCE = 6
_LONGEST_LINE = 500
_RANK = re.compile(r"\[rank(\d+)\]|\[Rank (\d+)\]|\bRank (\d+)\]|local_rank: (\d+)")
_HOST = re.compile(
    r"\] (\S+) kernel: |^\w{3} [ \d]\d [\d:]{8} (\S+) (?:kernel|systemd)|^(\w[\w.-]*):\d+:\d+ \[\d+\]"
)
_ENTITY = re.compile(
    r"\b(?:0000|000\d|[0-9a-fA-F]{8}):[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?\b|\bmlx5_\d+\b|nvswitch\d+"
)
_SEQUENCE = re.compile(r"\[Rank (\d+)\].*SeqNum=(\d+)")
_LAG = 16


@dataclass(frozen=True, slots=True)
class Stream:
    """Lines of one source in their order; `node` and `rank` where the source is known."""

    name: str
    lines: Iterable[str]
    node: str | None = None
    rank: int | None = None
    at: float | None = None


@dataclass(slots=True)
class Sign:
    """All matches of one label in one stream, remembered by the first."""

    label: str
    weight: int
    order: tuple[int, int]
    moment: Moment | None = None
    node: str | None = None
    rank: int | None = None
    entity: str | None = None
    count: int = 0
    evidence: list[str] = field(default_factory=list)
    at: float | None = None
    action: str | None = None

    def add(self, line: str) -> None:
        """One more line of evidence."""
        self.count += 1
        if len(self.evidence) < _MOST_EVIDENCE and line not in self.evidence:
            self.evidence.append(line)


class Scanner:
    """Reads streams one after the other; `signs` holds what was found."""

    def __init__(self) -> None:
        self.signs: list[Sign] = []
        self.lines = 0
        self._streams = 0

    def read(self, stream: Stream) -> None:
        """Reads a whole stream in blocks of bounded size."""
        one = _OneStream(stream, self._streams)
        self._streams += 1
        iterator = iter(stream.lines)
        before: list[str] = []
        while block := [line[:_LONGEST_LINE] for line in islice(iterator, _BLOCK_LINES)]:
            one.block(before, block)
            before = block[-3:]
            self.lines += len(block)
        self.signs += one.finish()


class _OneStream:
    def __init__(self, stream: Stream, number: int) -> None:
        self._stream, self._number = stream, number
        self._signs: dict[str, Sign] = {}
        self._series = Series()
        self._position = 0
        self._in_traceback = False
        self._sequences: dict[int, int] = {}

    def block(self, before: list[str], lines: list[str]) -> None:
        """Reads some lines; `before` are the last ones of the block before, for context."""
        for index, line in enumerate(lines):
            interest = interest_of(line)
            if interest.rules or interest.traceback or self._in_traceback:
                self._line(interest, before, lines, index)
            if interest.sequence:
                self._collect_sequence(line)
            if interest.series:
                self._series.read(line)
        self._position += len(lines)

    def _line(self, interest: Interest, before: list[str], lines: list[str], index: int) -> None:
        line = lines[index]
        known = False
        for rule in interest.rules:
            if rule.pattern.search(line):
                known = True
                context = [*before, *lines[max(0, index - 3) : index]]
                self._note(rule.label, rule.weight, index, line, context, rule.action)
        if interest.traceback:
            self._in_traceback = True
        elif self._in_traceback:
            self._exception(index, line, known=known)

    def _exception(self, index: int, line: str, *, known: bool) -> None:
        """The last line of a traceback that no rule knows is an error of the user's own code."""
        found = EXCEPTION.match(line)
        if found is None:
            return
        self._in_traceback = False
        if not known and not NOT_THE_USERS.match(found["name"].rpartition(".")[2]):
            self._note("user_code_error", 60, index, line)

    def _note(
        self,
        label: str,
        weight: int,
        index: int,
        line: str,
        context: Iterable[str] = (),
        action: str | None = None,
    ) -> None:
        sign = self._signs.get(label)
        if sign is None or weight > sign.weight:
            rank, node, entity = _place(line, context)
            fresh = Sign(
                label,
                weight,
                (self._number, self._position + index),
                moment_of(line),
                node or self._stream.node,
                self._stream.rank if rank is None else rank,
                entity,
                at=self._stream.at,
                action=action,
            )
            if sign is not None:
                fresh.count, fresh.evidence = sign.count, sign.evidence
                fresh.order = min(fresh.order, sign.order)
            sign = self._signs[label] = fresh
        sign.add(line.strip())

    def _collect_sequence(self, line: str) -> None:
        found = _SEQUENCE.search(line)
        if found:
            rank, number = int(found[1]), int(found[2])
            self._sequences[rank] = min(number, self._sequences.get(rank, number))

    def finish(self) -> list[Sign]:
        for label, weight, line in self._series.findings():
            self._note(label, weight, 0, line)
        if len(self._sequences) > 1:
            behind = min(self._sequences, key=lambda rank: self._sequences[rank])
            ahead = max(self._sequences.values())
            if ahead - self._sequences[behind] >= _LAG:
                line = f"rank {behind} is at collective {self._sequences[behind]}, others are at {ahead}"
                self._note("nccl_collective_desync", 80, 0, line)
                self._signs["nccl_collective_desync"].rank = behind
        return list(self._signs.values())


def _place(line: str, context: Iterable[str]) -> tuple[int | None, str | None, str | None]:
    rank = _RANK.search(line)
    host = _HOST.search(line)
    entity = _ENTITY.search(line)
    for earlier in reversed(list(context)):
        entity = entity or _ENTITY.search(earlier)
    return (
        int(next(filter(None, rank.groups()))) if rank else None,
        next(filter(None, host.groups())) if host else None,
        entity[0] if entity else None,
    )
