"""CPU time of one scheduling decision: a gang of 64 nodes x 8 accelerators in a pool of 1,250 x 8.

A decision is a whole cycle for one waiting gang: order by the policies, placement (fewest leaves,
fewest spines, best fit), booking on the statement, commit.  Thread CPU time, median of many.

The peer is slurmctld 22.05.8 with topology/tree on the same shape (nodes in State=CLOUD), 19 such gangs:
3.2-4.2 ms of its CPU time a job, measured on a machine of this kind before; it is not run here.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from l2_aistation.core.cycle import Session, run
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.policy import default_policies
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool
from l2_aistation.core.world import Job, Queue, World

SLURM_MS = 3.2
BAR_MS = 0.5
CARDS = tuple(AcceleratorFacts(number, "nvidia", "H100", 80 << 30) for number in range(8))


def cluster() -> Pool:
    pool = Pool(
        NodeFacts(f"n{number}", 128, 1 << 40, CARDS, f"leaf{number // 32:02d}", f"spine{number // 256}")
        for number in range(1250)
    )
    pool.up[:] = True
    return pool


def gang(name: str, at: float, nodes: int = 64) -> Job:
    demand = Demand((TaskDemand("worker", nodes, 8000, 0, 8),), nodes)
    return Job(id=name, tenant="t", queue="default", priority=0, submitted_at=at, demand=demand)


def decide(world: World, job: Job) -> float:
    """Thread CPU seconds of one cycle that places one gang."""
    world.jobs = {job.id: job}
    policies = default_policies()
    began = time.thread_time()
    session = run(Session(world, 1.0, policies))
    booked = session.statement.commit()
    spent = time.thread_time() - began
    assert len(booked) == 1
    return spent


def main() -> None:
    world = World(cluster(), {"default": Queue("default")})
    decide(world, gang("warm-up", 0.0))
    empty = []
    for number in range(300):
        job = gang(f"e{number}", 0.0)
        empty.append(decide(world, job))
        world.give(job)
    filling = [decide(world, gang(f"f{number}", 0.0)) for number in range(18)]
    p99 = statistics.quantiles(empty, n=100)[98] * 1e3
    rows = [
        {
            "layer": "l2",
            "name": name,
            "ours": round(ours, 4),
            "peer": "slurmctld topology/tree (measured earlier, not in this run)",
            "peer_version": "22.05.8",
            "ratio": round(ours / SLURM_MS, 4),
            "unit": "ms of CPU a decision",
            "how": how,
            "bar": BAR_MS,
            "ok": ours <= BAR_MS,
        }
        for name, ours, how in (
            ("gang of 64x8 in 1,250x8, p50", statistics.median(empty) * 1e3, f"300 cycles, p99 {p99:.2f} ms"),
            ("18 gangs of 64x8 fill 1,250x8, mean", statistics.fmean(filling) * 1e3, "until it is full"),
        )
    ]
    json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
