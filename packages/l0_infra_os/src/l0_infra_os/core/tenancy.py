"""Who may have how much, and which nodes: quota and topology-aware, all-or-nothing allocation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from l0_infra_os._kit.problems import BadInput, Conflict


@dataclass(frozen=True)
class Candidate:
    """A node that could be leased."""

    id: str
    leaf: str
    rack: str
    flavor: str


@dataclass(frozen=True)
class Choice:
    """The nodes chosen for a lease."""

    members: tuple[str, ...]
    spares: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return self.members + self.spares


MOST_NODES = 10**6


def check_request(nodes: int, spares: int) -> None:
    """`BadInput` for counts that make no sense."""
    if not 1 <= nodes <= MOST_NODES:
        raise BadInput(f"must be 1 to {MOST_NODES}", field="nodes")
    if not 0 <= spares <= MOST_NODES:
        raise BadInput(f"must be 0 to {MOST_NODES}", field="spares")


def check_flavor(flavor: str | None, known: Iterable[str]) -> None:
    """`BadInput` when the site has no node of that flavor at all; None is any."""
    if flavor is not None and flavor not in (flavors := sorted({name for name in known if name})):
        raise BadInput(
            f"no node has the flavor {flavor!r}",
            field="flavor",
            do=f"use one of: {', '.join(flavors)}" if flavors else "enroll and inspect nodes first",
        )


def check_quota(*, tenant: str, quota: int | None, held: int, asked: int) -> None:
    """`Conflict` when the tenant would hold more nodes than its quota; None is no limit."""
    if quota is not None and held + asked > quota:
        raise Conflict(
            f"tenant {tenant} would hold {held + asked} nodes, its quota is {quota}",
            why=f"it holds {held} and asks for {asked} more",
            do=(f"ask for at most {quota - held}, " if quota > held else "")
            + "release nodes, or have the quota raised",
        )


def allocate(
    candidates: Sequence[Candidate], *, nodes: int, spares: int = 0, near: Sequence[str] = ()
) -> Choice:
    """Chooses `nodes` members and `spares` spares, or nothing: `Conflict` when there are too few.

    Members sit under as few leaves as can be: the smallest leaf that holds them all, so that
    large ones stay whole for large requests; else the fullest leaves first.  `near` names leaves
    to prefer (those of the lease that grows).  A spare comes from the members' leaves first.
    """
    if len(candidates) < nodes + spares:
        raise Conflict(
            f"{nodes + spares} nodes are asked for, {len(candidates)} are available",
            do="ask for fewer, release a lease, or enroll and inspect more nodes",
        )
    by_leaf: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in sorted(candidates, key=lambda node: (node.rack, node.id)):
        by_leaf[candidate.leaf].append(candidate)
    members = _pack(by_leaf, nodes, set(near))
    used = {leaf for leaf, row in by_leaf.items() if any(node.id in members for node in row)}
    left = [node for row in by_leaf.values() for node in row if node.id not in members]
    left.sort(key=lambda node: (node.leaf not in used, len(by_leaf[node.leaf]), node.rack, node.id))
    return Choice(tuple(members), tuple(node.id for node in left[:spares]))


def _pack(by_leaf: dict[str, list[Candidate]], count: int, near: set[str]) -> list[str]:
    whole = [leaf for leaf, row in by_leaf.items() if len(row) >= count]
    if whole:
        best = min(whole, key=lambda leaf: (leaf not in near, len(by_leaf[leaf]), leaf))
        return [node.id for node in by_leaf[best][:count]]
    order = sorted(by_leaf, key=lambda leaf: (leaf not in near, -len(by_leaf[leaf]), leaf))
    chosen: list[str] = []
    while len(chosen) < count:
        rest = count - len(chosen)
        fits = [leaf for leaf in order if len(by_leaf[leaf]) >= rest]
        # The last leaf is the smallest that holds the rest; before it the fullest.
        leaf = min(fits, key=lambda name: (len(by_leaf[name]), name)) if fits else order[0]
        chosen += [node.id for node in by_leaf[leaf][:rest]]
        order.remove(leaf)
    return chosen
