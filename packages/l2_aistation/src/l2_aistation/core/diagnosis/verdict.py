"""From signs to a cause: roots before consequences, the earliest root first."""

from __future__ import annotations

import signal as signals
from collections.abc import Iterable
from dataclasses import dataclass

from l2_aistation.core.healing import Cause, Evidence, LostNode, RankExit, Stall

from .flight import RankDump, Suspect, find_suspects
from .rules import CONSEQUENCE, REFUSAL, ROOT
from .scan import Scanner, Sign, Stream
from .vocabulary import LABELS

_STALL_LABELS = {
    "hang": "hang",
    "slow": "straggler",
    "nan": "loss_nan",
    "spike": "loss_spike",
    "disk": "disk_full",
    "memory": "host_oom",
}
_SIGNAL_LABELS = {
    signals.SIGKILL: "process_killed",
    signals.SIGTERM: "process_killed",
    signals.SIGSEGV: "segfault",
    signals.SIGABRT: "segfault",
    signals.SIGFPE: "segfault",
    signals.SIGILL: "segfault",
    signals.SIGBUS: "shm_exhausted",
}
_BAD_INPUT = 2
_NODE_MARGIN_S = 1.0
_MOST_CONSEQUENCES = 4
_SUSPECT_WEIGHT = 60
"""Above the ranks that only report a time-out, below a cause that a log names."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a set of logs says: the first cause, then other signs, and how many lines were read."""

    causes: tuple[Cause, ...]
    lines: int

    @property
    def cause(self) -> Cause:
        """The first cause, or "unknown"."""
        return self.causes[0]

    def as_json(self) -> dict[str, object]:
        """The JSON value that `aistation diagnose --json` prints."""
        return {"causes": [_plain(cause) for cause in self.causes], "lines": self.lines}


def diagnose_lines(streams: Iterable[Stream], dumps: Iterable[RankDump] = ()) -> Diagnosis:
    """Reads logs of ranks and kernels, each a stream, and names the first cause, or "unknown".

    Flight Recorder `dumps` of the ranks, where there are any, name the rank that the others wait for.
    """
    scanner = Scanner()
    for stream in streams:
        scanner.read(stream)
    ordered = _by_rank_of_cause([*scanner.signs, *map(_suspect_sign, find_suspects(dumps))])
    causes = [_cause(sign, ordered[1:] if number == 0 else ()) for number, sign in enumerate(ordered)]
    return Diagnosis(tuple(causes) or (_unknown(()),), scanner.lines)


def name_cause(evidence: Evidence) -> Cause:
    """Why an attempt ended, from exits, stalls and lost nodes."""
    signs = _signs_of(evidence)
    if evidence.lost:
        lost = _node_lost(evidence.lost[0])
        earlier = [
            sign for sign in signs if sign.weight >= ROOT and (sign.at or 0.0) < evidence.lost[0].last_seen
        ]
        if not any((sign.at or 0.0) < evidence.lost[0].last_seen - _NODE_MARGIN_S for sign in earlier):
            return _cause(lost, _by_rank_of_cause(signs))
    ordered = _by_rank_of_cause(signs)
    if not ordered:
        return _unknown(_what_is_known(evidence))
    return _cause(ordered[0], ordered[1:])


def only_consequences(evidence: Evidence) -> bool:
    """Whether every sign may be the echo of something that is not seen yet, as a node about to be silent."""
    if evidence.lost or evidence.stalls:
        return False
    signs = _signs_of(evidence)
    return bool(signs) and all(sign.weight <= CONSEQUENCE for sign in signs)


def _signs_of(evidence: Evidence) -> list[Sign]:
    scanner = Scanner()
    for end in sorted(evidence.exits, key=lambda item: item.at):
        found = len(scanner.signs)
        scanner.read(Stream(f"rank {end.rank}", end.tail, end.node, end.rank, end.at))
        by_exit = _exit_sign(end, found)
        if by_exit is not None:
            scanner.signs.append(by_exit)
    for sign in scanner.signs:
        sign.moment = None  # exits are ordered by when the supervisors saw them
    return scanner.signs + [_stall_sign(stall) for stall in evidence.stalls]


def _exit_sign(end: RankExit, order: int) -> Sign | None:
    if end.signal is not None:
        label = _SIGNAL_LABELS.get(signals.Signals(end.signal), "segfault")
        name = signals.Signals(end.signal).name
        line = f"rank {end.rank} on {end.node} ended by {name}"
    elif end.lost:
        label, line = "process_killed", f"rank {end.rank} on {end.node} is gone; nobody saw its end"
    elif end.code in (126, 127):
        label, line = (
            "env_mismatch",
            f"rank {end.rank} on {end.node} could not be started (exit code {end.code})",
        )
    else:
        return _refusal_sign(end, order)
    sign = Sign(label, 50, (order, 0), None, end.node, end.rank, at=end.at)
    sign.add(line)
    return sign


def _refusal_sign(end: RankExit, order: int) -> Sign | None:
    """Exit code 2 after an error message as the last words: the program refuses its input, now and again."""
    words = [line.rstrip() for line in end.tail if line.strip()]
    start = len(words) - 1
    while start > 0 and words[start][0].isspace():  # its "why" and "try" are indented
        start -= 1
    if end.code != _BAD_INPUT or not words or not REFUSAL.match(words[start]):
        return None
    sign = Sign("user_code_error", 90, (order, 0), None, end.node, end.rank, at=end.at)
    for line in words[start:]:
        sign.add(line.strip())
    return sign


def _stall_sign(stall: Stall) -> Sign:
    sign = Sign(
        _STALL_LABELS.get(stall.kind, "hang"), 70, (1 << 20, 0), None, stall.node, stall.rank, at=stall.at
    )
    for line in stall.evidence or (f"rank {stall.rank} on {stall.node}: {stall.kind}",):
        sign.add(line)
    return sign


def _suspect_sign(suspect: Suspect) -> Sign:
    label = "nccl_collective_desync" if suspect.kind == "mismatch" else "nccl_timeout"
    weight = _SUSPECT_WEIGHT + (ROOT - _SUSPECT_WEIGHT if suspect.kind == "mismatch" else 0)
    sign = Sign(label, weight, (1 << 20, suspect.rank), rank=suspect.rank)
    sign.add(f"rank {suspect.rank} ({suspect.kind}) in process group {suspect.group}: {suspect.evidence}")
    return sign


def _node_lost(lost: LostNode) -> Sign:
    sign = Sign("node_lost", 110, (0, 0), None, lost.node, at=lost.last_seen)
    silent = lost.noticed - lost.last_seen
    sign.add(f"heartbeats of node {lost.node} stopped: nothing for {silent:.1f} s while others beat on")
    if lost.power is not None:
        sign.add(f"its management controller says that the power is {lost.power}")
    return sign


def _by_rank_of_cause(signs: Iterable[Sign]) -> list[Sign]:
    """The root first.  Roots are ordered by time where their clocks agree, else by weight."""
    rest = sorted(signs, key=lambda sign: (-sign.weight, sign.at or 0.0, sign.order))
    roots = [sign for sign in rest if sign.weight >= ROOT]
    if len(roots) > 1:
        first = roots[0]
        for sign in roots[1:]:
            if _clearly_earlier(sign, first):
                first = sign
        rest.remove(first)
        rest.insert(0, first)
    return rest


def _clearly_earlier(sign: Sign, other: Sign) -> bool:
    if sign.moment is not None and other.moment is not None and sign.moment.clock == other.moment.clock:
        return sign.moment.seconds < other.moment.seconds - 0.5 and sign.order[0] != other.order[0]
    if sign.at is not None and other.at is not None:
        return sign.at < other.at - 0.5
    return False


def _cause(sign: Sign, others: Iterable[Sign]) -> Cause:
    label = LABELS[sign.label]
    evidence = list(sign.evidence)
    echoes = [other for other in others if other.label != sign.label and other.weight <= CONSEQUENCE]
    evidence += [f"consequence ({other.label}): {other.evidence[0]}" for other in echoes[:_MOST_CONSEQUENCES]]
    return Cause(
        sign.label,
        label.category,
        sign.action or label.action,
        sign.node,
        sign.rank,
        tuple(evidence),
        _confidence(sign),
    )


def _confidence(sign: Sign) -> float:
    steps = (
        (100, 0.98),
        (90, 0.95),
        (80, 0.9),
        (70, 0.85),
        (60, 0.8),
        (50, 0.75),
        (40, 0.6),
        (20, 0.5),
        (10, 0.8),
    )
    return next(value for least, value in steps if sign.weight >= least)


def _what_is_known(evidence: Evidence) -> tuple[str, ...]:
    lines = [
        f"rank {end.rank} on {end.node} ended with code {end.code}{_last_words(end)}"
        for end in evidence.exits
        if end.code
    ]
    if not evidence.started:
        lines.append("not every rank had started")
    return tuple(lines[:_MOST_CONSEQUENCES])


def _last_words(end: RankExit) -> str:
    last = next((line.strip() for line in reversed(end.tail) if line.strip()), "")
    return f": {last[:200]}" if last else ""


def _unknown(evidence: tuple[str, ...]) -> Cause:
    return Cause("unknown", "unknown", "restart", evidence=evidence, confidence=0.0)


def _plain(cause: Cause) -> dict[str, object]:
    return {
        "label": cause.label,
        "category": cause.category,
        "action": cause.action,
        "node": cause.node,
        "rank": cause.rank,
        "confidence": cause.confidence,
        "evidence": list(cause.evidence),
    }
