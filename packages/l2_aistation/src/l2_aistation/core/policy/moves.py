"""Moving small jobs together so that a large one fits."""

from __future__ import annotations

from l2_aistation.core.amount import Amount
from l2_aistation.core.guarantee import need_of
from l2_aistation.core.world import World

from . import Request, Right, Rule
from .lost_work import FINEST


class Moves(Rule):
    """Anybody may be moved who gets another place at once, if that costs less than it gains.

    What the moved jobs lose together is at most what the claimant has already waited, each times its
    share of the pool; so nobody is moved for a job that has only just come.
    """

    name = "moves"

    def rights(self, world: World, request: Request) -> Right | None:
        """All jobs that run, of no higher priority."""
        if request.action != "consolidate":
            return None
        need = need_of(request.demand)
        share = Amount(need.accelerator_milli, need.cpu_milli).dominant_share(world.totals)
        most = round(share * FINEST) * max(round(request.now - request.job.submitted_at), 0)
        victims = (other for other in world.holders() if other.priority <= request.job.priority)
        return Right(victims, moves=True, most=most)
