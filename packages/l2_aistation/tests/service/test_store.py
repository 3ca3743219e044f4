"""The store: migrations give the tables that the code uses; a batch is written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from l2_aistation._kit.problems import Conflict
from l2_aistation.core.attempt import Attempt
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.healing import LostNode, RankExit, Stall
from l2_aistation.core.pool import AcceleratorFacts, ClusterFacts, NodeFacts, Slot
from l2_aistation.core.states import JobState
from l2_aistation.core.world import Job, Queue
from l2_aistation.store import Batch, Store
from l2_aistation.store.rows import slots_text
from l2_aistation.store.tables import metadata


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = Store(f"sqlite:///{tmp_path / 'test.db'}")
    yield one
    one.close()


def job(name: str = "j", tenant: str = "t") -> Job:
    return Job(
        name,
        tenant,
        "default",
        0,
        1.0,
        Demand((TaskDemand("w", 1, 1000),), 1),
        spec_text="{}",
        spec_digest="d",
    )


def submitted(store: Store, *jobs: Job) -> None:
    batch = Batch()
    for one in jobs:
        batch.add_job(one, None)
        batch.note(1.0, "submitted", tenant=one.tenant, job=one.id)
    store.commit(batch)


def test_migrations_give_the_tables_of_the_code(store: Store) -> None:
    with store.engine.connect() as connection:
        names = {"include_name": lambda name, kind, _parents: kind != "table" or name in metadata.tables}
        context = MigrationContext.configure(connection, opts={"compare_type": True, **names})
        assert compare_metadata(context, metadata) == []


def test_an_attempt_survives_with_all_its_evidence(store: Store) -> None:
    attempt = Attempt(
        "j",
        1,
        [Slot(0, "w", "n1", 1000, 5, (0, 3)), Slot(1, "w", "n2", 1000, 5)],
        29500,
        1.0,
        started={0, 1},
        exits={1: RankExit(1, "n2", 3.0, None, 9, False, ("最后一行", "\ufffd"))},
        stalls=[Stall(0, "n1", 2.0, "hang", ("line",))],
        lost={"n2": LostNode("n2", 1.0, 2.0, "off")},
        quiet={"n1"},
        replaced={"n0": "n1"},
        fault_at=3.0,
        why="reason",
    )
    batch = Batch()
    batch.add_job(job(), None)
    batch.add_attempt(attempt, slots_text(attempt.slots))
    store.commit(batch)
    assert store.live_attempts() == [attempt]
    attempt.last_step = 7
    batch = Batch()
    batch.touch_attempt(attempt)
    store.commit(batch)
    assert store.attempts("j") == [attempt]
    assert attempt.version == 2


def test_a_row_changed_by_somebody_else_refuses_the_whole_batch(store: Store) -> None:
    one, two = job("one"), job("two")
    submitted(store, one, two)
    two.version = 9  # what somebody else's write looks like from here
    one.state = two.state = JobState.CANCELLED
    batch = Batch()
    batch.touch(one)
    batch.touch(two)
    batch.note(2.0, "state", job="one")
    with pytest.raises(Conflict, match="changed by somebody else"):
        store.commit(batch)
    assert [row["state"] for row in store.jobs(None)] == ["queued", "queued"]
    assert [entry["kind"] for entry in store.log(job="one")] == ["submitted"]


def test_steps_that_come_twice_are_kept_once(store: Store) -> None:
    for steps in ([1, 2, 2, 3], [2, 3, 4], [1]):
        batch = Batch()
        for step in steps:
            batch.step("j", 1, step, float(step), 1.0 / step)
        store.commit(batch)
    assert [row["step"] for row in store.steps("j")] == [1, 2, 3, 4]


def test_tenants_rows(store: Store) -> None:
    submitted(store, job("a", "red"), job("b", "blue"))
    assert [row["id"] for row in store.jobs("red")] == ["a"]
    assert store.job("a", "blue") is None
    assert [entry["job"] for entry in store.log(tenant="blue")] == ["b"]


def test_a_cluster_and_queues_come_back_as_they_were(store: Store) -> None:
    facts = ClusterFacts(
        "lab",
        (NodeFacts("n1", 8, 1 << 40, (AcceleratorFacts(0, "x", "y", 1, 0),), "l", "s", spare=True),),
        "d",
    )
    for name in ("lab", "again"):
        batch = Batch()
        batch.cluster = (ClusterFacts(name, facts.nodes, facts.digest), 1.0)
        batch.queues["q"] = Queue("q", 1, 2.0, 3, None, 0.5)
        batch.nodes["n1"] = (True, "fan")
        store.commit(batch)
    assert store.cluster() == ClusterFacts("again", facts.nodes, "d")
    assert store.queues() == [Queue("q", 1, 2.0, 3, None, 0.5)]
    assert store.cordons() == {"n1": "fan"}


def test_one_scheduler_a_file(store: Store, tmp_path: Path) -> None:
    store.claim()
    store.claim()
    other = Store(f"sqlite:///{tmp_path / 'test.db'}")
    try:
        with pytest.raises(Conflict, match="another aistation schedules"):
            other.claim()
    finally:
        other.close()
