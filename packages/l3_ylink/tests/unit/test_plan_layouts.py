"""Plans: what comes out even, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import ModelShape, ParallelPlan
from l3_ylink.trainkit.planning import make_plan, read_shape, wanted_world

TINY = read_shape("tiny")

REFUSED: list[tuple[str, int, dict[str, Any], str, str]] = [
    # what is wrong, ranks, options, field at fault, words of the factorisation
    ("batch not shared evenly", 4, {"global_batch": 10}, "global_batch", "10 sequences / 4 data = 2.50"),
    (
        "micro-batch does not divide",
        4,
        {"global_batch": 16, "micro_batch": 3},
        "micro_batch",
        "16 sequences / 4 data",
    ),
    (
        "tensor does not divide the ranks",
        4,
        {"tensor_parallel": 3, "engine": "megatron"},
        "world_size",
        "4 ranks",
    ),
    (
        "tensor does not divide the kv heads",
        4,
        {"tensor_parallel": 4, "engine": "megatron"},
        "tensor_parallel",
        "2 / 4",
    ),
    (
        "pipeline does not divide the layers",
        3,
        {"pipeline_parallel": 3, "engine": "megatron"},
        "pipeline_parallel",
        "4 / 3",
    ),
    (
        "engine cannot",
        4,
        {"tensor_parallel": 2},
        "tensor_parallel",
        "4 ranks = 2 data × 2 tensor × 1 pipeline",
    ),
    ("engine cannot", 4, {"zero_stage": 3}, "zero_stage", "whole parameters"),
    ("no such stage", 4, {"zero_stage": 4}, "zero_stage", "unknown"),
    ("no such engine", 4, {"engine": "horovod"}, "engine", "unknown"),
    ("no such type", 4, {"dtype": "int3"}, "dtype", "unknown"),
    ("no rank", 0, {}, "world_size", "at least 1"),
    ("no step", 4, {"steps": 0}, "steps", "at least 1"),
    ("no batch", 4, {"global_batch": 0}, "global_batch", "at least 1"),
    ("no rate", 4, {"learning_rate": 0.0}, "learning_rate", "more than 0"),
    ("infinite rate", 4, {"learning_rate": float("inf")}, "learning_rate", "more than 0"),
    ("too big", 4, {"memory_limit_bytes": 1 << 20}, "memory_limit_bytes", "at least"),
]


@pytest.mark.parametrize(("what", "ranks", "options", "field", "words"), REFUSED)
def test_a_layout_that_cannot_work_is_refused_with_its_factorisation(
    what: str, ranks: int, options: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(BadInput) as refused:
        make_plan(TINY, ranks, **{"steps": 10, **options})
    assert refused.value.field == field
    assert words in refused.value.what


@pytest.mark.parametrize(
    ("change", "field"),
    [({"heads": 3}, "heads"), ({"kv_heads": 3}, "kv_heads"), ({"heads": 128, "kv_heads": 128}, "heads")],
)
def test_a_shape_that_does_not_come_out_even_is_refused(change: dict[str, int], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        make_plan(TINY.model_copy(update=change), 4, steps=1)
    assert refused.value.field == field


@settings(deadline=None)
@given(
    data=st.integers(1, 64),
    a_rank=st.integers(1, 48),
    stage=st.integers(0, 2),
    limit=st.none() | st.integers(24, 36).map(lambda power: 1 << power),
)
def test_the_global_batch_holds_and_memory_stays_under_the_limit(
    data: int, a_rank: int, stage: int, limit: int | None
) -> None:
    options: dict[str, Any] = {"steps": 3, "zero_stage": stage}
    least = make_plan(TINY, data, global_batch=data, **options).memory_bytes_per_rank
    options |= {"global_batch": data * a_rank, "memory_limit_bytes": limit}
    if limit is not None and limit < least:
        with pytest.raises(BadInput, match="over the limit"):
            make_plan(TINY, data, **options)
        return
    plan = make_plan(TINY, data, **options)
    assert plan.data_parallel * plan.micro_batch * plan.gradient_accumulation == plan.global_batch
    assert plan.data_parallel * plan.tensor_parallel * plan.pipeline_parallel == plan.world_size
    assert limit is None or plan.memory_bytes_per_rank <= limit


@settings(deadline=None)
@given(data=st.integers(2, 64), stage=st.integers(1, 3))
def test_a_higher_zero_stage_never_needs_more_memory(data: int, stage: int) -> None:
    def need(zero_stage: int) -> int:
        return make_plan(TINY, data, steps=1, zero_stage=zero_stage, engine="megatron").memory_bytes_per_rank

    assert need(stage) < need(stage - 1)


def test_the_largest_micro_batch_that_fits_is_taken() -> None:
    whole = make_plan(TINY, 2, steps=1, global_batch=32)
    tight = make_plan(TINY, 2, steps=1, global_batch=32, memory_limit_bytes=whole.memory_bytes_per_rank - 1)
    assert (whole.micro_batch, whole.gradient_accumulation) == (16, 1)
    assert (tight.micro_batch, tight.gradient_accumulation) == (8, 2)
    assert tight.flops_per_step == whole.flops_per_step


def test_reasons_name_layout_batch_memory_and_both_utilisations() -> None:
    plan = make_plan(TINY, 4, steps=10, global_batch=16, recompute="full", tokens=10_000)
    text = "\n".join(plan.reasons)
    for words in ("4 ranks = 4 data", "global batch 16 = 4 data × 4 micro × 1", "MFU", "HFU", "2 epochs"):
        assert words in text


def test_a_plan_survives_its_file_with_the_same_digest(tmp_path: Path) -> None:
    plan = make_plan(TINY, 4, steps=10)
    digest = plan.write(tmp_path / "plan.json")
    assert ParallelPlan.read(tmp_path / "plan.json").digest() == digest == plan.digest()


def test_a_plan_for_another_number_of_ranks_is_refused() -> None:
    plan = make_plan(TINY, 4, steps=10)
    wanted_world(plan, 4)
    with pytest.raises(BadInput, match="for 4 ranks, this job has 2"):
        wanted_world(plan, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("layers: [", "not valid YAML"),
        ("layers: 2\n", "Field required"),
        ("- 1\n", "valid dictionary"),
        (
            "layers: 0\nhidden: 8\nheads: 1\nkv_heads: 1\nffn_hidden: 8\nvocabulary: 8\nsequence: 8\n",
            "layers",
        ),
    ],
)
def test_a_broken_shape_file_is_one_clear_error(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "shape.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(BadInput, match=words):
        read_shape(str(file))


def test_an_unknown_preset_names_those_that_there_are() -> None:
    with pytest.raises(BadInput) as refused:
        read_shape("huge")
    assert "tiny" in refused.value.do


def test_a_shape_file_gives_the_shape(tmp_path: Path) -> None:
    file = tmp_path / "shape.yaml"
    file.write_text("".join(f"{name}: {value}\n" for name, value in TINY.model_dump().items()), "utf-8")
    assert read_shape(str(file)) == TINY == ModelShape(**TINY.model_dump())
