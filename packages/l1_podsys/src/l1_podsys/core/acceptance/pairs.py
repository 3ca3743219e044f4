"""Which hosts to measure against each other, in rounds in which no host appears twice."""

from __future__ import annotations

from collections.abc import Sequence

ALL_PAIRS_UP_TO = 8


def rounds(hosts: Sequence[str], *, all_pairs_up_to: int = ALL_PAIRS_UP_TO) -> list[list[tuple[str, str]]]:
    """Rounds of disjoint pairs.

    A few hosts: every pair once, by the circle method of round-robin tournaments, in n - 1 rounds (n
    for an odd n).  Many hosts: partners at distances 1, 2, 4, … around the ring, so that each host is
    measured about 2·log2(n) times and a bad one stands out among all its pairs.
    """
    count = len(hosts)
    if count < 2:
        return []
    if count <= all_pairs_up_to:
        return _tournament(list(hosts))
    found = []
    distance = 1
    while distance <= count // 2:
        edges = [(index, (index + distance) % count) for index in range(count)]
        found += _disjoint(edges, hosts)
        distance *= 2
    return found


def _tournament(hosts: list[str]) -> list[list[tuple[str, str]]]:
    places: list[str | None] = [*hosts, None] if len(hosts) % 2 else [*hosts]
    found = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        meets = zip(places[:half], reversed(places[half:]), strict=True)
        found.append([(one, other) for one, other in meets if one is not None and other is not None])
        places = [places[0], places[-1], *places[1:-1]]
    return found


def _disjoint(edges: list[tuple[int, int]], hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Splits edges into rounds greedily; a pair is measured once, whichever way it came."""
    seen: set[frozenset[int]] = set()
    left = []
    for edge in edges:
        if frozenset(edge) not in seen:
            seen.add(frozenset(edge))
            left.append(edge)
    found = []
    while left:
        busy: set[int] = set()
        now, later = [], []
        for edge in left:
            if busy.isdisjoint(edge):
                busy.update(edge)
                now.append((hosts[edge[0]], hosts[edge[1]]))
            else:
                later.append(edge)
        found.append(now)
        left = later
    return found
