"""Queues: what fits into the tree, what they say as JSON, and the fading memory of what they held."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.amount import Amount
from l2_aistation.core.decay import Decay
from l2_aistation.core.queue import Cells, Queue, Tree, check_queue

TREE = {
    "lab": Queue("lab", guarantee_accelerators=16),
    "vision": Queue("vision", parent="lab", guarantee_accelerators=8),
}


@pytest.mark.parametrize(
    ("queue", "field"),
    [
        (Queue("new", parent="nobody"), "parent"),
        (Queue("lab", parent="vision", guarantee_accelerators=16), "parent"),
        (Queue("text", parent="lab", guarantee_accelerators=9), "guarantee_accelerators"),
        (Queue("lab", guarantee_accelerators=7), "guarantee_accelerators"),
        (Queue("new", guarantee_accelerators=9, cap_accelerators=8), "guarantee_accelerators"),
        (Queue("new", guarantee_models={"H100": 9}, cap_models={"H100": 8}), "guarantee_models.H100"),
        (Queue("new", cap_models={"H100": -1}), "cap_models.H100"),
        (Queue("new", weight=0), "weight"),
        (Queue("new", min_run_s=-1), "min_run_s"),
        (Queue("new", unlimited=("network",)), "unlimited"),
        (Queue("new", cells=(Cells("galaxy", 1),)), "cells.0.level"),
        (Queue("new", cells=(Cells("leaf", 0),)), "cells.0.count"),
        (Queue("new", user_limit_jobs=-1), "user_limit_jobs"),
    ],
)
def test_what_does_not_fit_is_told_by_its_field(queue: Queue, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_queue(TREE, queue)
    assert caught.value.field == field


def test_cells_are_guaranteed_on_one_level_of_the_tree() -> None:
    tree = {**TREE, "vision": Queue("vision", parent="lab", cells=(Cells("leaf", 1),))}
    with pytest.raises(BadInput, match="vision"):
        check_queue(tree, Queue("lab", guarantee_accelerators=16, cells=(Cells("leaf", 2),)))


def test_a_tree_deeper_than_eight_levels_is_refused() -> None:
    tree: dict[str, Queue] = {}
    for level in range(8):
        queue = Queue(f"q{level}", parent=f"q{level - 1}" if level else None)
        check_queue(tree, queue)
        tree[queue.name] = queue
    with pytest.raises(BadInput, match="8 levels"):
        check_queue(tree, Queue("q8", parent="q7"))


queues = st.builds(
    Queue,
    name=st.just("q"),
    guarantee_accelerators=st.integers(0, 9),
    guarantee_cpu_cores=st.floats(0, 9),
    cap_accelerators=st.none() | st.integers(9, 20),
    weight=st.floats(0.1, 9),
    parent=st.none() | st.just("p"),
    guarantee_models=st.dictionaries(st.sampled_from(["H100", "A100"]), st.integers(0, 9)),
    cap_models=st.dictionaries(st.sampled_from(["H100", "A100"]), st.integers(9, 20)),
    cells=st.lists(st.builds(Cells, st.sampled_from(["node", "leaf"]), st.integers(1, 4))).map(tuple),
    user_limit_jobs=st.none() | st.integers(0, 9),
    min_run_s=st.floats(0, 900),
    preemptible=st.booleans(),
    unlimited=st.lists(st.sampled_from(["cpu", "memory"]), unique=True).map(tuple),
)


@settings(max_examples=50, deadline=None)
@given(queues)
def test_json_and_back_is_the_same_queue(queue: Queue) -> None:
    assert Queue.from_record(json.loads(json.dumps(queue.as_record()))) == queue


def test_what_is_inherited_follows_every_change_of_the_tree() -> None:
    tree = Tree({"up": Queue("up", min_run_s=60), "down": Queue("down", parent="up", min_run_s=10)})
    assert tree.line("down") == ("down", "up")
    assert tree.min_run_s("down") == 60
    assert tree.preemptible("down")
    tree["up"] = Queue("up", preemptible=False)
    assert tree.min_run_s("down") == 10
    assert not tree.preemptible("down")
    tree.update({"down": Queue("down", cells=(Cells("leaf", 1),))})
    assert tree.line("down") == ("down",)
    assert tree.celled
    tree.clear()
    assert not tree.celled


def test_the_past_fades_by_half_lives() -> None:
    """A queue that held 16 for one half-life has a mean of 8; left alone for two more, of 2."""
    decay = Decay(half_life_s=100.0)
    held = {"q": Amount(accelerator_milli=16_000)}
    decay.advance(0.0, held)
    decay.advance(100.0, held)
    assert decay.of("q")[0] == pytest.approx(8_000)
    decay.advance(300.0, {})
    assert decay.of("q")[0] == pytest.approx(2_000)
    assert Decay.from_record(json.loads(json.dumps(decay.as_record()))) == decay


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.1, 500), min_size=1, max_size=8))
def test_it_does_not_matter_how_often_the_clock_is_read(steps: list[float]) -> None:
    often, once = Decay(half_life_s=60.0), Decay(half_life_s=60.0)
    held = {"q": Amount(accelerator_milli=1_000, cpu_milli=3_000)}
    now = 0.0
    for decay in (often, once):
        decay.advance(now, held)
    for step in steps:
        now += step
        often.advance(now, held)
    once.advance(now, held)
    assert often.of("q") == pytest.approx(once.of("q"))
