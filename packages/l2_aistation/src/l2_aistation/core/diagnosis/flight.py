"""Which ranks hold up a job, from the Flight Recorder dumps of its ranks.

PyTorch's ProcessGroupNCCL keeps the last collectives of each process group in a ring: what was enqueued,
started, completed (`torch.distributed`'s Flight Recorder, versions 2.1 to 2.10).  A collective that does
not end has two kinds of culprits: a rank whose device has not finished what its peers have finished, and a
rank that never came to it.  A rank that is late only because it waits for another one is no culprit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Call:
    """One collective as a rank recorded it."""

    sequence: int
    name: str
    sizes: str
    done: bool


@dataclass(slots=True)
class GroupView:
    """What one rank knows of one process group: sequence numbers, and the calls that are still open."""

    enqueued: int = -1
    completed: int = -1
    calls: dict[int, Call] = field(default_factory=dict)
    waits_for: set[int] = field(default_factory=set)


@dataclass(slots=True)
class RankDump:
    """The dump of one rank: members of its groups (global ranks), and its view of each group."""

    rank: int
    members: dict[str, tuple[int, ...]] = field(default_factory=dict)
    described: dict[str, str] = field(default_factory=dict)
    views: dict[str, GroupView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank that others wait for; `kind` is stalled, missing, silent (no dump at all) or mismatch."""

    rank: int
    kind: str
    group: str
    evidence: str


def parse_dump(rank: int, value: Mapping[str, Any]) -> RankDump:
    """Reads the plain value of a dump.  Raises ValueError for one that is no Flight Recorder dump."""
    try:
        return _parsed(rank, value)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"no Flight Recorder dump: {error!r}") from error


def _parsed(rank: int, value: Mapping[str, Any]) -> RankDump:
    dump = RankDump(rank)
    for name, group in value["pg_config"].items():
        ranks = group["ranks"]
        listed = ranks.strip("[] ").split(",") if isinstance(ranks, str) else ranks
        dump.members[str(name)] = tuple(int(member) for member in listed if str(member).strip())
        dump.described[str(name)] = str(group.get("desc", name))
    numbers: dict[str, str] = {}
    for entry in value["entries"]:
        name = str(entry["process_group"][0])
        numbers[str(entry["pg_id"])] = name
        _note(dump, dump.views.setdefault(name, GroupView()), name, entry)
    for number, status in value.get("pg_status", {}).items():
        view = dump.views.get(numbers.get(str(number), ""))
        if view is not None:
            view.enqueued = max(view.enqueued, int(status["last_enqueued_collective"]))
            view.completed = max(view.completed, int(status["last_completed_collective"]))
    return dump


def _note(dump: RankDump, view: GroupView, name: str, entry: Mapping[str, Any]) -> None:
    done = entry["state"] == _COMPLETED or bool(entry.get("time_discovered_completed_ns"))
    operation = str(entry["profiling_name"]).removeprefix("nccl:")
    if entry.get("is_p2p"):
        peer = _peer(operation, dump.members.get(name, ()))
        if not done and peer is not None:
            view.waits_for.add(peer)
        return
    sequence = int(entry["collective_seq_id"])
    sizes = f"{entry.get('input_sizes')} -> {entry.get('output_sizes')}"
    view.calls[sequence] = Call(sequence, operation, sizes, done)
    view.enqueued = max(view.enqueued, sequence)
    if done:
        view.completed = max(view.completed, sequence)


def _peer(operation: str, members: tuple[int, ...]) -> int | None:
    """The global rank at the other end of `send 0->3` or `recv 0<-3` (ranks inside the group)."""
    _, _, pair = operation.partition(" ")
    _, _, other = pair.replace("<-", "->").partition("->")
    return members[int(other)] if other.isdigit() and int(other) < len(members) else None


def find_suspects(dumps: Iterable[RankDump]) -> list[Suspect]:
    """The ranks that hold the others up, or nothing where no collective is open."""
    by_rank = {dump.rank: dump for dump in dumps}
    groups: dict[str, tuple[int, ...]] = {}
    for dump in by_rank.values():
        groups.update(dump.members)
    open_groups = {name: ranks for name, ranks in groups.items() if _is_open(name, by_rank)}
    for found in (_mismatched, _stalled):
        suspects = [one for name, ranks in open_groups.items() for one in found(name, ranks, by_rank)]
        if suspects:
            return _one_each(suspects)
    return _one_each(_late(open_groups, by_rank))


def _is_open(name: str, by_rank: Mapping[int, RankDump]) -> bool:
    views = [dump.views[name] for dump in by_rank.values() if name in dump.views]
    return any(view.enqueued > view.completed or view.waits_for for view in views)


def _views(ranks: tuple[int, ...], name: str, by_rank: Mapping[int, RankDump]) -> dict[int, GroupView]:
    return {
        rank: by_rank[rank].views[name] for rank in ranks if rank in by_rank and name in by_rank[rank].views
    }


def _mismatched(name: str, ranks: tuple[int, ...], by_rank: Mapping[int, RankDump]) -> list[Suspect]:
    """Ranks that call another operation than most do at the same place."""
    views = _views(ranks, name, by_rank)
    shared = sorted({number for view in views.values() for number in view.calls})
    for number in shared:
        calls = {rank: view.calls[number] for rank, view in views.items() if number in view.calls}
        names = [call.name for call in calls.values()]
        common = max(set(names), key=lambda operation: (names.count(operation), operation))
        odd = [rank for rank, call in calls.items() if call.name != common]
        if odd and 2 * len(odd) < len(calls):
            return [
                Suspect(rank, "mismatch", name, f"calls {calls[rank].name} where its peers call {common}")
                for rank in odd
            ]
    return []


def _stalled(name: str, ranks: tuple[int, ...], by_rank: Mapping[int, RankDump]) -> list[Suspect]:
    """Ranks whose device has not completed what a peer of the group has completed."""
    views = _views(ranks, name, by_rank)
    furthest = max((_completed(view) for view in views.values()), default=-1)
    return [
        Suspect(
            rank,
            "stalled",
            name,
            f"collective {view.completed + 1} ({_operation(view, view.completed + 1)}) is not done, peers are"
            f" past {furthest}",
        )
        for rank, view in views.items()
        if view.calls and _completed(view) < furthest and view.enqueued > view.completed
    ]


def _completed(view: GroupView) -> int:
    """The last collective that is known to be done: all before the first open one are."""
    still_open = [number for number, call in view.calls.items() if not call.done]
    return max(view.completed, min(still_open) - 1) if still_open else view.completed


def _operation(view: GroupView, number: int) -> str:
    return view.calls[number].name if number in view.calls else "unknown"


def _late(groups: Mapping[str, tuple[int, ...]], by_rank: Mapping[int, RankDump]) -> list[Suspect]:
    """Ranks that have not come to an open collective and wait for nobody themselves."""
    waits: dict[int, set[int]] = defaultdict(set)
    told: dict[int, Suspect] = {}
    for name, ranks in groups.items():
        views = _views(ranks, name, by_rank)
        for rank, view in views.items():
            for peer in view.waits_for:
                waits[rank].add(peer)
                told.setdefault(peer, _late_suspect(peer, name, "a point-to-point transfer", by_rank))
            if view.enqueued <= view.completed:
                continue
            first = _completed(view) + 1
            for peer in ranks:
                if peer != rank and (peer not in views or views[peer].enqueued < first):
                    waits[rank].add(peer)
                    what = f"collective {first} ({_operation(view, first)})"
                    told.setdefault(peer, _late_suspect(peer, name, what, by_rank))
    return [told[rank] for rank in sorted(told) if not waits[rank]]


def _late_suspect(rank: int, group: str, what: str, by_rank: Mapping[int, RankDump]) -> Suspect:
    if rank not in by_rank:
        return Suspect(rank, "silent", group, f"has left no dump and never came to {what}")
    return Suspect(rank, "missing", group, f"never came to {what}")


def _one_each(suspects: Iterable[Suspect]) -> list[Suspect]:
    first: dict[int, Suspect] = {}
    for suspect in suspects:
        first.setdefault(suspect.rank, suspect)
    return [first[rank] for rank in sorted(first)]
