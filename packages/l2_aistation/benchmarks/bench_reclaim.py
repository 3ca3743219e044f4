"""CPU time to find whom a claimant asks to leave: 64, 250 and 500 nodes in a full pool of 1,250 x 8.

A queue within its guarantee takes back whole nodes from a queue that borrows all of them.  The action
is timed whole: rights, candidates, their weights, regions, victims, the claim.  Thread CPU time, the
median of several pools: full of gangs of 64 nodes, of gangs of 1 to 32, of single nodes; of single
accelerators (10,000 jobs) once, as a row without a bar.

The peer is NVIDIA KAI-Scheduler by its published Go benchmark for reclaim of large jobs (0.728 s at 200
nodes, 9.17 s at 500, 76.3 s at 1,000); it is not run here.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time

from l2_aistation.core.actions import allocate, reclaim
from l2_aistation.core.cycle import Session
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.placement import place
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool
from l2_aistation.core.statement import Eviction
from l2_aistation.core.states import JobState
from l2_aistation.core.world import Job, Queue, World

CARDS = tuple(AcceleratorFacts(number, "nvidia", "H100", 80 << 30) for number in range(8))
KAI_MS = 76_300.0
BAR_MS = 10.0
ROUNDS = 5
POOLS = {
    "gangs of 64 nodes": [(64, 8)],
    "gangs of 1 to 32 nodes": [(size, 8) for size in (1, 2, 4, 8, 16, 32)],
    "single nodes": [(1, 8)],
    "single accelerators": [(1, 1)],
}


def full(shapes: list[tuple[int, int]], guarantee: int, seed: int) -> World:
    """A pool that one queue fills, with jobs of different age."""
    rng = random.Random(seed)
    pool = Pool(
        NodeFacts(f"n{number}", 128, 1 << 40, CARDS, f"leaf{number // 32:02d}", f"spine{number // 256}")
        for number in range(1250)
    )
    pool.up[:] = True
    world = World(
        pool, {"sure": Queue("sure", guarantee_accelerators=guarantee), "borrower": Queue("borrower")}
    )
    while True:
        tasks, each = rng.choice(shapes)
        demand = Demand((TaskDemand("worker", tasks, 1000, 0, each),), tasks)
        found = place(pool, demand)
        if found is None and tasks > 1:
            shapes = [(1, 8)]
            continue
        if found is None:
            return world
        job = Job(f"b{len(world.jobs)}", "t", "borrower", 0, 0.0, demand)
        world.jobs[job.id] = job
        world.take(job, found)
        job.state, job.started_at = JobState.RUNNING, 900 * rng.random()


def measure(shapes: list[tuple[int, int]], nodes: int, seed: int) -> tuple[float, int, int]:
    """Milliseconds of CPU, victims, and leaves of the claimant's place."""
    world = full(shapes, 8 * nodes, seed)
    demand = Demand((TaskDemand("worker", nodes, 1000, 0, 8),), nodes)
    world.jobs["claimant"] = Job("claimant", "t", "sure", 0, 1000.0, demand)
    session = Session(world, 1000.0)
    allocate(session)
    began = time.thread_time()
    reclaim(session)
    spent = time.thread_time() - began
    victims = sum(isinstance(entry, Eviction) for entry in session.statement.commit())
    return spent * 1e3, victims, len(set(world.pool.leaf[world.claims["claimant"].placement.nodes].tolist()))


def main() -> None:
    rows = []
    for name, shapes in POOLS.items():
        rounds = 1 if shapes == [(1, 1)] else ROUNDS
        for nodes in (64, 250, 500):
            found = [measure(shapes, nodes, seed) for seed in range(rounds)]
            ours = statistics.median(item[0] for item in found)
            bar = None if rounds == 1 else BAR_MS
            rows.append(
                {
                    "layer": "l2",
                    "name": f"reclaim {nodes}x8 from {name}, 1,250x8 full",
                    "ours": round(ours, 2),
                    "peer": "KAI reclaim of a large job at 1,000 nodes (published, not run here)",
                    "peer_version": "2026-07",
                    "ratio": round(ours / KAI_MS, 6),
                    "unit": "ms of CPU",
                    "how": f"median of {rounds}; {found[0][1]} victims, {found[0][2]} leaves",
                    "bar": bar,
                    "ok": bar is None or ours <= bar,
                }
            )
    json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
