"""Moving small jobs together so that a large one fits."""

from __future__ import annotations

import numpy as np

from l2_aistation.core.amount import Amount
from l2_aistation.core.guarantee import need_of
from l2_aistation.core.world import World

from . import Request, Right, Rule
from .lost_work import FINEST, RESTART_S


class Moves(Rule):
    """Anybody may be moved who gets another place at once, if that costs less than it gains.

    What the moved jobs lose together is at most what the claimant has already waited, each times its
    share of the pool; so nobody is moved for a job that has only just come.
    """

    name = "moves"

    def __init__(self) -> None:
        self._stamp: tuple[object, int] = (None, -1)
        self._free = 0, 0

    asks_in = ("consolidate",)

    def rights(self, world: World, request: Request) -> Right | None:
        """Jobs of no higher priority on nodes that are free in part."""
        if request.action != "consolidate":
            return None
        demand = request.demand
        waited = round(request.now - request.job.submitted_at)
        if waited < RESTART_S or not self._room(world, demand.accelerators, demand.cpu_milli):
            return None  # moving makes room in one piece, not more room
        pool, need = world.pool, need_of(demand)
        usable = pool.usable
        share = Amount(need.accelerator_milli, need.cpu_milli).dominant_share(world.totals)
        most = round(share * FINEST) * waited
        broken = usable & (pool.free_bits != 0) & (pool.free_bits != pool.all_bits)
        if not demand.accelerators:
            broken = usable & (pool.cpu_free > 0) & (pool.tasks > 0)
        victims = world.ledger.on(broken)
        return Right(
            [other for other in victims if other.priority <= request.job.priority], moves=True, most=most
        )

    def _room(self, world: World, accelerators: int, cpu_milli: int) -> bool:
        """Whether so much is free in sum."""
        stamp = world.turn, world.bookings
        if self._stamp != stamp:
            pool = world.pool
            usable = pool.usable
            cards = int(np.bitwise_count(pool.free_bits[usable]).sum())
            self._free = cards, int(np.maximum(pool.cpu_free[usable], 0).sum())
            self._stamp = stamp
        return accelerators <= self._free[0] and cpu_milli <= self._free[1]
