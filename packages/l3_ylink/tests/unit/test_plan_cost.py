"""What a model costs, against torch's own counters and published tables."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from l3_ylink.documents import ModelShape
from l3_ylink.trainkit.planning import (
    activation_bytes,
    hardware_flops,
    mfu,
    model_state_bytes,
    parameter_count,
    read_shape,
    step_flops,
)

DATA = Path(__file__).parent.parent / "data"


def shape(
    layers: int,
    hidden: int,
    heads: int,
    kv: int,
    ffn: int,
    vocabulary: int,
    sequence: int,
    *,
    tied: bool = True,
) -> ModelShape:
    return ModelShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv,
        ffn_hidden=ffn,
        vocabulary=vocabulary,
        sequence=sequence,
        tied_embeddings=tied,
    )


SMALL = [
    shape(2, 64, 4, 2, 176, 512, 64),
    shape(2, 64, 4, 4, 176, 512, 64, tied=False),
    shape(3, 96, 4, 1, 200, 700, 32),
]
LLAMA3 = {
    "LLAMA3_8B": (32, 4096, 32, 8, 14336, 128256),
    "LLAMA3_70B": (80, 8192, 64, 8, 28672, 128256),
    "LLAMA3.1_405B": (126, 16384, 128, 8, 53248, 128256),
}


def table(name: str) -> list[dict[str, str]]:
    with open(DATA / name, encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(("preset", "count"), [("llama3-8b", 8_030_261_248), ("smollm2-135m", 134_515_008)])
def test_parameter_count_is_that_of_the_published_weights(preset: str, count: int) -> None:
    assert parameter_count(read_shape(preset)) == count


@pytest.mark.parametrize("row", table("zero_table1.csv"), ids=lambda row: f"{row['params_b']}B-dp{row['dp']}")
def test_model_states_are_those_of_zeros_table_1(row: dict[str, str]) -> None:
    columns = ("baseline_gb", "p_os_gb", "p_os_g_gb", "p_os_g_p_gb")
    for stage, column in enumerate(columns):
        states = model_state_bytes(
            float(row["params_b"]) * 1e9, data_parallel=int(row["dp"]), zero_stage=stage
        )
        assert states.total / 1e9 == pytest.approx(float(row[column]), abs=0.0051), column


@pytest.mark.parametrize("model", LLAMA3)
def test_flops_per_token_are_those_that_megatron_bridge_publishes(model: str) -> None:
    """TFLOP/s over tokens/s is FLOPs per token; the median over releases keeps their rounding out."""
    rows = [row for row in table("megatron_bridge_llama3.csv") if row["model"] == model]
    published = sorted(
        float(row["model_tflops_per_gpu"]) * 1e12 / float(row["tokens_per_s_per_gpu"]) for row in rows
    )
    llama = shape(*LLAMA3[model], 8192, tied=False)
    ours = step_flops(llama, 1, causal=True) / llama.sequence
    assert ours == pytest.approx(published[len(published) // 2], rel=0.002)


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_flops_are_those_that_torch_counts(small: ModelShape) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from l3_ylink.trainkit.flows.llama import Llama
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    model, batch = Llama(small), 2
    tokens = torch.zeros(batch, small.sequence, dtype=torch.int64)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        model(tokens, tokens).backward()
    assert counted.get_total_flops() == step_flops(small, batch)


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_recomputation_costs_what_torch_counts_and_changes_no_gradient(small: ModelShape) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from l3_ylink.trainkit.flows.llama import Llama
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    tokens = torch.arange(2 * small.sequence).reshape(2, -1) % small.vocabulary
    plain, again = Llama(small), Llama(small, recompute=True)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        again(tokens, tokens).backward()
    with sdpa_kernel(SDPBackend.MATH):
        plain(tokens, tokens).backward()
    left_out = small.layers * 2 * small.hidden * small.ffn_hidden * tokens.numel()
    assert counted.get_total_flops() == hardware_flops(small, 2, "full") - left_out
    for mine, theirs in zip(plain.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_parameters_are_those_of_the_model(small: ModelShape) -> None:
    pytest.importorskip("torch", reason="needs torch")
    from l3_ylink.trainkit.flows.llama import Llama

    assert sum(weight.numel() for weight in Llama(small).parameters()) == parameter_count(small)


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_activations_are_the_bytes_that_autograd_keeps(small: ModelShape) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from l3_ylink.trainkit.flows.llama import Llama

    model, batch = Llama(small), 3
    weights = {weight.data_ptr() for weight in model.parameters()}
    tables = {model.cos.data_ptr(), model.sin.data_ptr()}
    kept: dict[int, Any] = {}

    def note(tensor: Any) -> Any:
        place = tensor.untyped_storage().data_ptr()
        if place not in weights | tables:
            kept[place] = tensor
        return tensor

    tokens = torch.zeros(batch, small.sequence, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model(tokens, tokens)
    measured = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    assert activation_bytes(small, batch, dtype="float32") == pytest.approx(measured, rel=0.01)


def test_mfu_and_hfu_differ_by_what_is_recomputed() -> None:
    """Full recomputation repeats the forward pass: 8·N·T against 6·N·T, but for the head."""
    large = shape(76, 16384, 128, 128, 43690, 53228, 2048, tied=True)
    model, hardware = step_flops(large, 1), hardware_flops(large, 1, "full")
    assert hardware / model == pytest.approx(4 / 3, rel=0.003)
    assert hardware_flops(large, 1, "none") == model
    assert mfu(hardware, 2.0, 312e12) == pytest.approx(mfu(model, 2.0, 312e12) * hardware / model)
