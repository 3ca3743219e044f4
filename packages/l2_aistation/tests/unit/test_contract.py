"""The published interface: documents, schemas, states, wire forms, imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import l2_aistation
import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation import api
from l2_aistation._kit.documents import json_schema
from l2_aistation._kit.problems import BadInput
from l2_aistation.cli import DOCUMENTS
from l2_aistation.core import events
from l2_aistation.core.demand import demand_of
from l2_aistation.core.states import (
    ATTEMPT_TABLE,
    FINAL,
    HOLDING,
    IN_FLIGHT,
    JOB_TABLE,
    STOP_TARGETS,
    WAITING,
    AttemptState,
    JobEvent,
    JobState,
    TransitionError,
    next_job,
)
from l2_aistation.documents import JobSpec
from l2_aistation.settings import Settings

SCHEMAS = Path(l2_aistation.__file__).parent / "schemas"


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_the_committed_schema_is_the_model_s(name: str) -> None:
    assert (SCHEMAS / f"{name}-v1.json").read_text("utf-8") == json_schema(DOCUMENTS[name])


def test_every_published_name_is_there() -> None:
    assert len(api.__all__) <= 30
    for name in api.__all__:
        assert getattr(l2_aistation, name) is not None


def test_importing_the_api_loads_nothing_heavy() -> None:
    code = "import sys, l2_aistation.api; print(','.join({name.partition('.')[0] for name in sys.modules}))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = set(names.strip().split(","))
    assert not loaded & {"torch", "sqlalchemy", "fastapi", "celery", "redis", "numpy", "uvicorn"}
    assert not loaded & {"l0_infra_os", "l1_podsys", "l3_ylink", "l4_mmodel"}


def test_every_state_of_a_job_is_in_exactly_one_of_the_sets() -> None:
    for state in JobState:
        assert (state in FINAL) + (state in WAITING) + (state in HOLDING) == 1
    assert IN_FLIGHT <= HOLDING
    assert not STOP_TARGETS & HOLDING


def test_every_state_is_reached_and_only_final_ones_are_left_by_nothing() -> None:
    for table, states, start, extra in (
        (JOB_TABLE, JobState, JobState.QUEUED, set(STOP_TARGETS)),
        (ATTEMPT_TABLE, AttemptState, AttemptState.STARTING, set()),
    ):
        reached = {start, *table.values(), *extra}
        assert reached == set(states)
        left = {state for state, _ in table}
        ends = set(states) - left - {JobState.STOPPING}
        assert ends == (set(FINAL) if states is JobState else {AttemptState.ENDED})


def test_what_the_table_does_not_have_is_an_error() -> None:
    with pytest.raises(TransitionError, match="a completed job cannot cancel"):
        next_job(JobState.COMPLETED, JobEvent.CANCEL)


texts = st.text(max_size=20)
launches = st.builds(
    events.TaskLaunch,
    rank=st.integers(0, 9),
    local_rank=st.integers(0, 9),
    task=texts,
    command=st.lists(texts, max_size=3).map(tuple),
    environment=st.dictionaries(texts, texts, max_size=3),
    accelerators=st.lists(st.integers(0, 7), max_size=3).map(tuple),
)
messages = st.one_of(
    st.builds(events.StartTasks, tasks=st.lists(launches, max_size=3).map(tuple)),
    st.builds(events.WarmTasks, tasks=st.lists(launches, max_size=3).map(tuple)),
    st.builds(events.NodeSeen, attempts=st.lists(st.tuples(texts, st.integers(1, 9)), max_size=3).map(tuple)),
    *(
        st.builds(events.KINDS[name])
        for name in ("EndTasks", "TaskStarted", "TaskExited", "TasksEnded", "StepReported", "Resumed")
    ),
)


@given(messages)
def test_messages_survive_the_wire(message: events.Command) -> None:
    text = json.dumps(events.to_wire(message), allow_nan=True)
    again = events.from_wire(json.loads(text))
    assert repr(again) == repr(message)  # NaN is not equal to itself


def test_members_of_a_newer_version_are_dropped() -> None:
    value = {**events.to_wire(events.TasksEnded("j", 1, "n", 1.0)), "colour": "red"}
    assert events.from_wire(value) == events.TasksEnded("j", 1, "n", 1.0)


def spec(**more: object) -> JobSpec:
    base = {
        "producer": {"name": "test", "version": "1"},
        "name": "job",
        "tasks": [{"count": 4, "command": ["x"], "resources": {"cpu_cores": 0.0001, "accelerators": 2}}],
    }
    return JobSpec.parse({**base, **more})


def test_a_demand_in_the_pool_s_units() -> None:
    demand = demand_of(spec(gang={"min": 2, "max": 6}, topology={"preferred": "rack", "required": "spine"}))
    (group,) = demand.groups
    assert (group.count, demand.least, group.cpu_milli, group.accelerators) == (6, 2, 1, 2)
    assert (demand.preferred, demand.required) == ("rack", "spine")


def test_groups_of_one_name_are_refused() -> None:
    group = {"name": "a", "command": ["x"]}
    with pytest.raises(BadInput, match="one name"):
        demand_of(spec(tasks=[group, group]))
    two = [{"name": "a", "command": ["x"]}, {"name": "b", "command": ["x"]}]
    with pytest.raises(BadInput, match="only a gang of one group"):
        demand_of(spec(tasks=two, gang={"min": 1, "max": 2}))
    assert demand_of(spec(tasks=two, gang={"min": 2, "max": 2})).count == 2


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    options = Settings.load(
        home=tmp_path,
        token="ogai-abcdefghijklmnopqrstuvwxyz",
        broker_url="redis://:hunter2@10.0.0.1:6379/0",
        database_url="postgresql://user:hunter2@db/ogai",
    )
    text = " ".join(row.value for row in options.explain())
    assert "hunter2" not in text
    assert "abcdefgh" not in text
    assert "10.0.0.1:6379" in text
