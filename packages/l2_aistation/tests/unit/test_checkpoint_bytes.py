"""A state goes into bytes and comes back the same; any tool that reads safetensors can read them."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation._kit.problems import BadInput, Failed
from l2_aistation.checkpoint.layout import lay_out, read, write
from l2_aistation.checkpoint.segment import PAGE, Segment

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=20)
arrays = st.builds(
    lambda shape, kind, fill: np.full(shape, fill).astype(kind),
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from(["float32", "float64", "float16", "int64", "int32", "uint8", "bool"]),
    st.integers(0, 100),
)
keys = st.text(max_size=5) | st.integers() | st.tuples(st.integers(), st.text(max_size=3))
states = st.recursive(
    scalars | arrays,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


def there_and_back(state: Any) -> Any:
    layout = lay_out(state, {"world_size": 1})
    raw = memoryview(bytearray(layout.size))
    write(layout, raw)
    back, notes = read(raw)
    assert notes == {"world_size": 1}
    return back


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and bool(one == other)


@given(states)
def test_any_state_comes_back_the_same(state: Any) -> None:
    assert same(state, there_and_back(state))


@settings(max_examples=30)
@given(st.binary(max_size=400), st.integers(0, 400))
def test_damaged_bytes_are_told_and_never_run(noise: bytes, cut: int) -> None:
    layout = lay_out({"weights": np.arange(30.0), "step": 4}, {})
    raw = bytearray(layout.size)
    write(layout, memoryview(raw))
    raw[: len(noise)] = noise
    with contextlib.suppress(Failed):  # nothing but this, and what it returns is plain
        assert set(read(memoryview(raw)[: len(raw) - cut])[0]) == {"weights", "step"}


def test_torch_tensors_of_every_kind_come_back_bit_for_bit() -> None:
    torch = pytest.importorskip("torch")
    state = {
        "bf16": torch.randn(7, 3).to(torch.bfloat16),
        "strided": torch.arange(24.0).reshape(4, 6).t(),
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 5),
        "bool": torch.tensor([True, False]),
        "generator": torch.get_rng_state(),
        "parameter": torch.nn.Parameter(torch.ones(3)),
    }
    back = there_and_back(state)
    for name, tensor in state.items():
        assert back[name].dtype == tensor.dtype, name
        assert torch.equal(back[name], tensor.detach()), name


def test_an_optimizer_goes_on_exactly(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def trained(steps: int, model: Any, optimizer: Any) -> None:
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.full((2, 4), float(step))).square().mean().backward()
            optimizer.step()

    def fresh() -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 4)
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    model, optimizer = fresh()
    trained(5, model, optimizer)
    state = there_and_back({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    trained(5, model, optimizer)
    again, its_optimizer = fresh()
    again.load_state_dict(state["model"])
    its_optimizer.load_state_dict(state["optimizer"])
    trained(5, again, its_optimizer)
    assert torch.equal(model.weight, again.weight)


def test_the_library_of_the_format_reads_the_file(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    layout = lay_out({"a": np.arange(3, dtype="float32"), "b": np.arange(70, dtype="int64")}, {})
    raw = bytearray(layout.size)
    write(layout, memoryview(raw))
    found = safetensors.load(bytes(raw))
    assert found["0"].tolist() == [0, 1, 2]
    assert found["1"].tolist() == list(range(70))


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array(["text"]), 1j])
def test_what_cannot_be_kept_is_named(value: Any) -> None:
    with pytest.raises(BadInput) as told:
        lay_out({"outer": [0, value]}, {})
    assert "state" in (told.value.field or "")


def test_one_slot_is_always_whole(tmp_path: Path) -> None:
    """A rank that is killed in the middle of a save leaves the one before."""
    segment = Segment(tmp_path, "run", 0)
    for step in (1, 2):
        segment.save(lay_out({"step": step}, {}), step, 0, 1)
    torn = Segment(tmp_path, "run", 0)
    with pytest.raises(RuntimeError), torn._writable(100, 3):
        raise RuntimeError("killed here")
    assert [content.step for content in Segment(tmp_path, "run", 0).contents()] == [2]


def test_a_slot_that_is_being_read_is_not_overwritten(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "run", 0)
    segment.save(lay_out({"step": 1}, {}), 1, 0, 1)
    slot = segment.contents()[0].slot
    other = Segment(tmp_path, "run", 0)
    with other.reading(slot) as (content, raw):
        for step in (2, 3, 4):
            segment.save(lay_out({"step": step}, {}), step, 0, 1)
        assert content.step == 1
        assert read(raw)[0] == {"step": 1}
    assert [one.step for one in segment.contents()] == [4, 1]


def test_memory_does_not_grow_with_saves(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "run", 0)
    for step in range(40):
        segment.save(lay_out({"weights": np.full(10_000, step)}, {}), step, 0, 1)
    used = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert used <= 2 * (80_000 + PAGE + 4096)
    segment.remove()
    assert list(tmp_path.iterdir()) == []


def test_nonsense_in_a_slot_is_no_checkpoint(tmp_path: Path) -> None:
    segment = Segment(tmp_path, "run", 0)
    segment.paths[0].write_bytes(b"OGAICKP1" + (9000).to_bytes(4, "little") + b"{" * 9000)
    segment.paths[1].write_bytes(
        b"OGAICKP1" + (30).to_bytes(4, "little") + json.dumps({"state": "whole"}).encode()
    )
    assert segment.contents() == []
