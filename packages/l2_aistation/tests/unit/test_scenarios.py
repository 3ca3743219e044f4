"""Scenarios as tables: the cluster before, what happens, what is expected after; one file for each theme.

A file in `scenarios/` is a list of cases:

    - name: what is right
      source: the public complaint, or the rule
      cluster: {nodes: 4, accelerators: 8, cores: 64, per_leaf: 2, leaves_per_spine: 2}
               or {groups: [{nodes: 2, model: H100, ...}, ...]}; nodes are called n0, n1, ...
      queues: {name: {fields of Queue}}; `default` is made if none is named
      running: jobs that hold nodes before; `nodes: {n0: 4}` pins accelerators, else the pool places them
      steps: each runs a cycle after its events
        - at: 100              seconds, else one second after the step before
          submit/finish/fail/cancel/lose/restore/queues/checkpoint/stop: what happens before the cycle
          starts: [..]         exactly who starts in this cycle
          evicts: {victim: claimant}   exactly who is asked to leave, and for whom
          waits: {job: limit}  why a job does not start: a part of the limit or the words
          runs: [..]           exactly who runs after it
          nodes: {job: [n0, ..]}  exactly the nodes of a running job, or of its claim
          places: {job: [[0, 1], ..]}  exactly the accelerators of each rank
          weak/cached          nodes that are degraded from now on; {data set: [nodes that have it]}
          leaves: {job: 2}     over how many leaves it runs
          tasks: {job: 3}      at which size it runs, or will run
          promised: {job: 600} by when it starts, as promised
          told: {job: words}   why a promise was moved: a part of the words
          windows: {name: {kind, start, until, nodes}}; closed: [name]
      A job: {id, queue, tenant, owner, priority, tasks, accelerators, cores, model, models, required,
      preferred, share_milli, share_bytes, least, time_s, expected_s, preemptible, labels, since, checkpoint,
      one_per_node, data, near, apart, spread_level, most_per_domain}; near and apart are lists of
      {labels, level, required}; {not_before, reservation, array, most_running, depends_on: [[job,
      condition]]}.
Evicted jobs stop at the next step, unless it says `stop: []`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from l2_aistation.core.demand import Demand, Relation, Rules, TaskDemand
from l2_aistation.core.placement import place
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Placement, Pool, bit_places
from l2_aistation.core.rehearsal import Outcome, Rehearsal
from l2_aistation.core.states import JobState
from l2_aistation.core.windows import Window
from l2_aistation.core.world import Job, Queue, World

FOLDER = Path(__file__).parent / "scenarios"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]
CASE_KEYS = {"name", "source", "cluster", "queues", "running", "steps"}
CLUSTER_KEYS = {
    "nodes", "accelerators", "cores", "memory_bytes", "model", "device_bytes", "per_leaf", "leaves_per_spine",
    "pairs", "groups", "reserve_bytes",
}  # fmt: skip
JOB_KEYS = {
    "id", "queue", "tenant", "owner", "priority", "tasks", "accelerators", "cores", "model", "models",
    "required", "preferred", "share_milli", "share_bytes", "least", "time_s", "expected_s", "preemptible",
    "labels", "since", "checkpoint", "one_per_node", "nodes", "count", "data", "near", "apart",
    "spread_level", "most_per_domain", "not_before", "reservation", "array", "most_running", "depends_on",
}  # fmt: skip
EVENTS = ("restore", "queues", "finish", "fail", "cancel", "lose", "checkpoint", "submit")
STEP_KEYS = {
    *EVENTS, "at", "stop", "starts", "evicts", "waits", "runs", "nodes", "leaves", "places", "weak", "cached",
    "tasks", "promised", "told", "windows", "closed",
}  # fmt: skip


def cluster(table: dict[str, Any]) -> Pool:
    nodes: list[NodeFacts] = []
    for part in table.get("groups", [table]):
        assert part.keys() <= CLUSTER_KEYS, f"unknown: {part.keys() - CLUSTER_KEYS}"
        cards = tuple(
            AcceleratorFacts(
                number,
                "nvidia",
                part.get("model", "H100"),
                part.get("device_bytes", 80 << 30),
                nvlink=number // 2 if part.get("pairs") else None,
            )
            for number in range(part.get("accelerators", 8))
        )
        per_leaf, per_spine = part.get("per_leaf", 2), part.get("leaves_per_spine", 2)
        for _ in range(part["nodes"]):
            number = len(nodes)
            leaf = number // per_leaf
            nodes.append(
                NodeFacts(
                    f"n{number}",
                    part.get("cores", 64),
                    part.get("memory_bytes", 0),
                    cards,
                    f"leaf{leaf:03d}",
                    f"spine{leaf // per_spine:03d}",
                )
            )
    pool = Pool(nodes, table.get("reserve_bytes"))
    pool.up[:] = True
    return pool


def job(table: dict[str, Any]) -> Job:
    assert table.keys() <= JOB_KEYS, f"unknown: {table.keys() - JOB_KEYS}"
    count = table.get("tasks", 1)
    group = TaskDemand(
        "worker",
        count,
        int(table.get("cores", 1) * 1000),
        0,
        table.get("accelerators", 8),
        table.get("model"),
        table.get("one_per_node", False),
        table.get("share_milli", 0),
        table.get("share_bytes", 0),
        tuple(table.get("models", ())),
    )
    return Job(
        id=table["id"],
        tenant=table.get("tenant", "t"),
        owner=table.get("owner", "u"),
        queue=table.get("queue", "default"),
        priority=table.get("priority", 0),
        submitted_at=0.0,
        demand=Demand(
            (group,),
            table.get("least", count),
            table.get("preferred", "leaf"),
            table.get("required"),
            rules(table),
            tuple(table.get("data", ())),
        ),
        time_s=table.get("time_s"),
        expected_s=table.get("expected_s"),
        preemptible=table.get("preemptible", True),
        labels=table.get("labels", {}),
        not_before=table.get("not_before"),
        reservation=table.get("reservation"),
        array=table.get("array"),
        most_running=table.get("most_running"),
        depends_on=tuple((name, condition) for name, condition in table.get("depends_on", ())),
    )


def rules(table: dict[str, Any]) -> Rules | None:
    near, apart = (
        tuple(
            Relation(
                tuple(sorted(row["labels"].items())), row.get("level", "node"), row.get("required", True)
            )
            for row in table.get(name, [])
        )
        for name in ("near", "apart")
    )
    spread, most = table.get("spread_level"), table.get("most_per_domain")
    return Rules(near, apart, spread, most) if near or apart or spread else None


def jobs_of(tables: list[dict[str, Any]]) -> list[tuple[Job, dict[str, Any]]]:
    """With `count: n`, n like jobs called id1, id2, ..."""
    rows = []
    for table in tables:
        if "count" in table:
            rows += [{**table, "id": f"{table['id']}{number + 1}"} for number in range(table["count"])]
        else:
            rows.append(table)
    return [(job(row), row) for row in rows]


def pinned(pool: Pool, item: Job, on: dict[str, int]) -> Placement:
    """The first free accelerators of the named nodes, as many tasks as fit into the given numbers."""
    usable = np.zeros(len(pool), dtype=np.bool_)
    group = item.demand.groups[0]
    parts = []
    for name, accelerators in on.items():
        usable[:] = False
        usable[pool.index[name]] = True
        tasks = accelerators // group.accelerators
        found = place(
            pool, Demand((TaskDemand("worker", tasks, 1000, 0, group.accelerators),), tasks), usable
        )
        assert found is not None, f"{item.id} does not fit on {name}"
        parts.append(found)
    return Placement(
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([part.bits for part in parts]),
        np.concatenate([part.groups for part in parts]),
        np.concatenate([part.cpu_milli for part in parts]),
        np.concatenate([part.memory_bytes for part in parts]),
    )


def stage(case: dict[str, Any]) -> Rehearsal:
    """The world before the first step."""
    assert case.keys() <= CASE_KEYS, f"unknown: {case.keys() - CASE_KEYS}"
    tables = case.get("queues", {"default": {}})
    world = World(cluster(case["cluster"]))
    for name, table in tables.items():
        world.put_queue(Queue.from_record({"name": name, **(table or {})}))
    for item, table in jobs_of(case.get("running", [])):
        world.jobs[item.id] = item
        found = (
            pinned(world.pool, item, table["nodes"]) if "nodes" in table else place(world.pool, item.demand)
        )
        assert found is not None, f"{item.id} finds no place"
        world.take(item, found)
        item.state = JobState.RUNNING
        item.started_at = item.submitted_at = float(table.get("since", 0))
        item.last_checkpoint_at = table.get("checkpoint")
    return Rehearsal(world)


def mark(world: World, step: dict[str, Any]) -> None:
    """What is said of nodes and of times."""
    for node in step.get("weak", []):
        world.pool.set_health(node, ok=False)
    for data, nodes in step.get("cached", {}).items():
        world.pool.set_cached(data, nodes)
    for name, table in step.get("windows", {}).items():
        world.windows[name] = Window.from_record({"name": name, **table})
    for name in step.get("closed", []):
        del world.windows[name]


def happen(play: Rehearsal, step: dict[str, Any]) -> None:
    assert step.keys() <= STEP_KEYS, f"unknown: {step.keys() - STEP_KEYS}"
    play.now = float(step.get("at", play.now + 1))
    if "stop" not in step:
        play.stop()
    elif step["stop"]:
        play.stop(*step["stop"])
    mark(play.world, step)
    for node in step.get("restore", []):
        play.restore(node)
    for name, table in step.get("queues", {}).items():
        record = play.world.queues[name].as_record() if name in play.world.queues else {"name": name}
        play.put_queue(Queue.from_record({**record, **table}))
    ends = {"finish": JobState.COMPLETED, "fail": JobState.FAILED, "cancel": JobState.CANCELLED}
    for event, state in ends.items():
        for name in step.get(event, []):
            play.end(name, state)
    for node in step.get("lose", []):
        play.lose(node)
    for name in step.get("checkpoint", []):
        play.checkpoint(name)
    for item, _ in jobs_of(step.get("submit", [])):
        play.submit(item)


def check_places(world: World, step: dict[str, Any]) -> None:
    def of(name: str) -> Placement:
        placement = world.claims[name].placement if name in world.claims else world.jobs[name].placement
        assert placement is not None
        return placement

    for name, nodes in step.get("nodes", {}).items():
        assert sorted({world.pool.facts[number].id for number in of(name).nodes}) == sorted(nodes)
    for name, places in step.get("places", {}).items():
        assert [list(bit_places(word)) for word in of(name).bits.tolist()] == places
    for name, leaves in step.get("leaves", {}).items():
        assert len({world.pool.leaf[number] for number in of(name).nodes}) == leaves
    for name, tasks in step.get("tasks", {}).items():
        assert len(of(name)) == tasks


def check(play: Rehearsal, step: dict[str, Any], outcome: Outcome) -> None:
    world = play.world
    if "starts" in step:
        assert sorted(outcome.started) == sorted(step["starts"])
    if "evicts" in step:
        assert dict(outcome.evicted) == step["evicts"]
    for name, words in step.get("waits", {}).items():
        refusal = play.refusal(name)
        assert refusal is not None, f"{name} was not refused"
        assert words in f"{refusal.limit}: {refusal.words()}"
    if "runs" in step:
        assert play.running() == sorted(step["runs"])
    check_places(world, step)
    for name, at in step.get("promised", {}).items():
        assert world.jobs[name].promised_at == at
    for name, words in step.get("told", {}).items():
        assert words in world.jobs[name].promise


@pytest.mark.parametrize("case", CASES)
def test_scenario(case: dict[str, Any]) -> None:
    play = stage(case)
    for number, step in enumerate(case["steps"]):
        happen(play, step)
        outcome = play.cycle()
        try:
            check(play, step, outcome)
        except AssertionError as error:
            error.add_note(f"in step {number + 1}: {outcome}")
            raise
        assert play.world.same_books(play.world.rebuilt())
