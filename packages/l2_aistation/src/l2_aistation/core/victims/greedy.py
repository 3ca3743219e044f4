"""Victims of a gang of equal tasks, counted node by node: what makes the most room for its weight.

Everything is arrays over ranks of candidates and over nodes, so that a claimant of hundreds of nodes
in a full pool is a matter of a few passes.  What may leave is either one candidate, with all its
nodes, or all candidates of one node; the cheaper per task goes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from l2_aistation.core.demand import LEVELS, TaskDemand
from l2_aistation.core.placement import Room, capacity, domains
from l2_aistation.core.pool import Bits, Bools, Ints, Pool

from .candidates import Candidate
from .trial import Trial

Floats = NDArray[np.float64]

MOST_REGIONS = 2
"""Switches of a level that are looked at closely: those that look cheapest."""

MOST_ESTIMATED = 16
"""Switches of a level whose cost is estimated node by node."""

DEARER = 2.0
"""So many times the least weight is paid for a place that is closer together."""

MOST_PASSES = 256
FAR = np.inf


@dataclass(slots=True)
class Rows:
    """What each candidate holds on each of its nodes: one row for each such pair."""

    who: Ints
    node: Ints
    bits: Bits
    cpu: Ints
    memory: Ints

    @classmethod
    def of(cls, trial: Trial) -> Rows:
        """Ranks of one candidate on one node make one row."""
        held, who = trial.everybody, trial.who
        node, bits, cpu, memory = held.nodes, held.bits, held.cpu_milli, held.memory_bytes
        if held.share_milli is not None:  # a shared accelerator is not free when one part of it goes
            bits = bits.copy()
            bits[held.parts] = 0
        key = who * len(trial.pool) + node
        if len(key) < 2 or bool((np.diff(key) > 0).all()):
            return cls(who, node, bits, cpu, memory)
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        at = order[first]
        return cls(
            who[at],
            node[at],
            np.bitwise_or.reduceat(bits[order], first),
            np.add.reduceat(cpu[order], first),
            np.add.reduceat(memory[order], first),
        )


class Ledger:
    """The free room while candidates leave one after the other."""

    def __init__(self, trial: Trial, rows: Rows, weights: Floats, mask: Bools) -> None:
        pool = trial.pool
        self.pool: Pool = pool
        self.group: TaskDemand = trial.demand.groups[0]
        self.rows = rows
        self.weights = weights
        self.mask = mask
        self.bits = pool.free_bits.copy()
        self.cpu = pool.cpu_free.copy()
        self.memory = pool.memory_free.copy()
        self.gone = np.zeros(len(weights), dtype=np.bool_)
        names = self.group.wanted
        self.wanted = pool.bits_of_any(names) if names else pool.all_bits
        self.caps = self.capacity()

    def copy(self) -> Ledger:
        """The same, on its own."""
        made = object.__new__(Ledger)
        for name in ("pool", "group", "rows", "weights", "mask", "wanted"):
            setattr(made, name, getattr(self, name))
        for name in ("bits", "cpu", "memory", "gone", "caps"):
            setattr(made, name, getattr(self, name).copy())
        return made

    def capacity(self) -> Ints:
        """How many tasks each node could take now."""
        return capacity(self.pool, Room(self.bits, self.cpu, self.memory, self.mask), self.group)

    def tasks(self, nodes: Ints, bits: Bits, cpu: Ints, memory: Ints) -> Ints:
        """How many tasks there would be with such room on some nodes."""
        group = self.group
        most = np.where(self.mask[nodes], len(self.pool) + group.count, 0).astype(np.int64)
        if group.accelerators:
            free = np.bitwise_count(bits & self.wanted[nodes]).astype(np.int64)
            np.minimum(most, free // group.accelerators, out=most)
        if group.cpu_milli:
            np.minimum(most, cpu // group.cpu_milli, out=most)
        if group.memory_bytes:
            np.minimum(most, memory // group.memory_bytes, out=most)
        if group.one_per_node:
            np.minimum(most, 1, out=most)
        np.maximum(most, 0, out=most)
        return most

    def gains(self) -> Ints:
        """By how many tasks each row alone would raise its node."""
        rows = self.rows
        at = rows.node
        after = self.tasks(
            at, self.bits[at] | rows.bits, self.cpu[at] + rows.cpu, self.memory[at] + rows.memory
        )
        more: Ints = np.maximum(after - self.caps[at], 0)
        return more

    def losses(self) -> Ints:
        """By how many tasks each row would lower its node if it came back."""
        rows = self.rows
        at = rows.node
        after = self.tasks(
            at, self.bits[at] & ~rows.bits, self.cpu[at] - rows.cpu, self.memory[at] - rows.memory
        )
        less: Ints = np.maximum(self.caps[at] - after, 0)
        return less

    def move(self, who: Ints, *, leave: bool) -> None:
        """Some candidates leave, or come back."""
        self.gone[who] = leave
        rows = self.rows
        moved = np.zeros(len(self.gone), dtype=np.bool_)
        moved[who] = True
        chosen = np.flatnonzero(moved[rows.who])
        node, bits = rows.node[chosen], rows.bits[chosen]
        if leave:
            np.bitwise_or.at(self.bits, node, bits)
            np.add.at(self.cpu, node, rows.cpu[chosen])
            np.add.at(self.memory, node, rows.memory[chosen])
        else:
            np.bitwise_and.at(self.bits, node, ~bits)
            np.subtract.at(self.cpu, node, rows.cpu[chosen])
            np.subtract.at(self.memory, node, rows.memory[chosen])
        self.caps = self.capacity()


def by_room(trial: Trial) -> Iterator[list[Candidate]]:
    """Sets of victims to look at: one for each region that could hold the claimant.

    The closest together comes first, unless it weighs much more than the lightest.
    """
    candidates = trial.candidates
    weights = np.array([item.weight for item in candidates], dtype=np.float64)
    rows = Rows.of(trial)
    for mask in trial.masks:
        ledger = Ledger(trial, rows, weights, mask)
        found: dict[bytes, tuple[int, float, Ints]] = {}
        for closeness, region in regions(trial, ledger):
            chosen = pick(ledger.copy(), region, trial.demand.least)
            if chosen is not None:
                found.setdefault(chosen.tobytes(), (closeness, float(weights[chosen].sum()), chosen))
        least = min((weight for _, weight, _ in found.values()), default=0.0)
        rows_found = sorted(found.values(), key=lambda item: (item[1] > DEARER * least, *item[:2]))
        for _, _, chosen in rows_found:
            yield [candidates[number] for number in chosen.tolist()]


def pick(ledger: Ledger, region: Bools, count: int) -> Ints | None:
    """Who leaves so that `count` tasks fit into a region; None where that is not enough."""
    inside = region[ledger.rows.node]
    for _ in range(MOST_PASSES):
        need = count - int(ledger.caps[region].sum())
        if need <= 0:
            break
        chosen = _next(ledger, inside, need)
        if not len(chosen):
            return None
        ledger.move(chosen, leave=True)
    else:
        return None
    return _spare(ledger, region, count)


def _next(ledger: Ledger, inside: Bools, need: int) -> Ints:
    """The candidates and nodes that make room cheapest, up to what is needed."""
    rows, weights = ledger.rows, ledger.weights
    here = np.flatnonzero(inside & ~ledger.gone[rows.who])
    if not len(here):
        return here
    gain = np.bincount(rows.who[here], weights=ledger.gains()[here], minlength=len(weights))
    single = np.where((gain > 0) & ~ledger.gone, weights / np.clip(gain, 1, need), FAR)
    node_gain, node_weight = _whole_nodes(ledger, here)
    several = np.bincount(rows.node[here], minlength=len(ledger.pool)) > 1
    bundle = np.where((node_gain > 0) & several, node_weight / np.maximum(node_gain, 1), FAR)
    price = np.concatenate([single, bundle])
    order = np.argsort(price, kind="stable")
    order = order[np.isfinite(price[order])]
    if not len(order):
        return here[:0]
    enough = int(np.searchsorted(np.cumsum(np.concatenate([gain, node_gain])[order]), need)) + 1
    taken = order[: max(min(enough, _apart(ledger, here, order)), 1)]
    jobs = taken[taken < len(weights)]
    nodes = taken[taken >= len(weights)] - len(weights)
    if len(nodes):
        whole = np.zeros(len(ledger.pool), dtype=np.bool_)
        whole[nodes] = True
        jobs = np.append(jobs, rows.who[here[whole[rows.node[here]]]])
    return np.unique(jobs)


def _apart(ledger: Ledger, here: Ints, order: Ints) -> int:
    """How many of some items, in their order, are on nodes of their own: what they gain adds up."""
    rows, count = ledger.rows, len(ledger.weights)
    place = np.full(count + len(ledger.pool), len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    nodes = np.arange(len(ledger.pool))
    turn = np.concatenate([place[rows.who[here]], place[nodes + count]])
    node = np.concatenate([rows.node[here], nodes])
    by_turn = np.argsort(turn, kind="stable")
    _, first = np.unique(node[by_turn], return_index=True)
    again = np.ones(len(node), dtype=np.bool_)
    again[first] = False
    return int(turn[by_turn][again].min(initial=len(order)))


def _whole_nodes(ledger: Ledger, here: Ints) -> tuple[Ints, Floats]:
    """For each node: tasks more if all its candidates left, and what those weigh, gangs in full."""
    rows, pool = ledger.rows, ledger.pool
    node = rows.node[here]
    bits, cpu, memory = ledger.bits.copy(), ledger.cpu.copy(), ledger.memory.copy()
    np.bitwise_or.at(bits, node, rows.bits[here])
    np.add.at(cpu, node, rows.cpu[here])
    np.add.at(memory, node, rows.memory[here])
    after = ledger.tasks(np.arange(len(pool)), bits, cpu, memory)
    weight = np.bincount(node, weights=ledger.weights[rows.who[here]], minlength=len(pool))
    touched = np.bincount(node, minlength=len(pool)) > 0
    return np.where(touched, np.maximum(after - ledger.caps, 0), 0), weight  # type: ignore[return-value]


def _spare(ledger: Ledger, region: Bools, count: int) -> Ints:
    """Lets come back whoever is not needed, the heaviest first."""
    rows = ledger.rows
    inside = region[rows.node]
    while True:
        slack = int(ledger.caps[region].sum()) - count
        loss = np.bincount(rows.who, weights=ledger.losses() * inside, minlength=len(ledger.weights))
        free = np.flatnonzero(ledger.gone & (loss <= slack))
        if not len(free):
            return np.flatnonzero(ledger.gone)
        back = free[np.argmax(ledger.weights[free])]
        ledger.move(np.array([back]), leave=False)


def regions(trial: Trial, ledger: Ledger) -> Iterator[tuple[int, Bools]]:
    """Where the claimant could run, the closest together first: switches, few leaves, anywhere allowed."""
    pool, demand = trial.pool, trial.demand
    everybody = np.arange(len(ledger.rows.who))
    gain, _ = _whole_nodes(ledger, everybody)
    most = ledger.caps + gain
    price = _prices(ledger, gain)
    coarsest = LEVELS.index(demand.required or "site")
    finest = min(LEVELS.index(demand.preferred or "leaf"), coarsest)
    for number in range(finest, coarsest + 1):
        domain = domains(pool, LEVELS[number])
        sums = np.bincount(domain, weights=most)
        fits = _cheap_domains(ledger, gain, price, domain, np.flatnonzero(sums >= demand.least))
        costs = [_estimate(ledger.caps, gain, price, domain == one, demand.least) for one in fits.tolist()]
        for at in np.argsort(costs, kind="stable")[:MOST_REGIONS]:
            region = domain == fits[at]
            if number > LEVELS.index("leaf"):
                yield 2 * number - 1, _few_leaves(pool, region, most, price, demand.least)
            yield 2 * number, region


def _cheap_domains(ledger: Ledger, gain: Ints, price: Floats, domain: Ints, fits: Ints) -> Ints:
    """Those of some switches where a task more is cheap in the mean."""
    if len(fits) <= MOST_ESTIMATED:
        return fits
    paid = np.where(gain > 0, price, 0.0) * gain
    mean = np.bincount(domain, weights=paid) / np.maximum(np.bincount(domain, weights=gain), 1)
    free = np.bincount(domain, weights=ledger.caps)
    return fits[np.lexsort((-free[fits], mean[fits]))][:MOST_ESTIMATED]


def _prices(ledger: Ledger, gain: Ints) -> Floats:
    """For each node, what one task more costs if gangs are paid for by the node."""
    rows = ledger.rows
    spread = np.bincount(rows.who, minlength=len(ledger.weights))
    share = ledger.weights[rows.who] / np.maximum(spread[rows.who], 1)
    weight = np.bincount(rows.node, weights=share, minlength=len(gain))
    return np.where(gain > 0, weight / np.maximum(gain, 1), FAR)


def _estimate(caps: Ints, gain: Ints, price: Floats, region: Bools, count: int) -> float:
    """About what it costs to have `count` tasks in a region."""
    need = count - int(caps[region].sum())
    if need <= 0:
        return 0.0
    at = np.flatnonzero(region & (gain > 0))
    at = at[np.argsort(price[at], kind="stable")]
    before = np.cumsum(gain[at]) - gain[at]
    part = np.clip(need - before, 0, gain[at])
    return float((part * price[at]).sum())


def _few_leaves(
    pool: Pool,
    region: Bools,
    most: Ints,
    price: Floats,
    count: int,
) -> Bools:
    """The fewest leaves of a region that hold the claimant, the cheaper ones among equals."""
    where = np.where(region, most, 0)
    sums = np.bincount(pool.leaf, weights=where, minlength=len(pool.leaf_names))
    known = np.where(np.isfinite(price) & region, price, 0.0)
    cost = np.bincount(pool.leaf, weights=known * where, minlength=len(pool.leaf_names))
    order = np.lexsort((cost, -sums))
    needed = int(np.searchsorted(np.cumsum(sums[order]), count)) + 1
    least = sums[order[min(needed, len(order)) - 1]]
    # Of all leaves that are as large as the smallest one needed, the cheapest.
    large = np.flatnonzero((sums >= least) & (sums > 0))
    large = large[np.argsort(cost[large] / np.maximum(sums[large], 1), kind="stable")]
    upto = int(np.searchsorted(np.cumsum(sums[large]), count)) + 1
    chosen: Bools = region & np.isin(pool.leaf, large[:upto])
    return chosen
