"""The planner's arithmetic beside what others publish and measure: `python bench_plan.py` prints a JSON list.

- FLOPs per token against the 71 Llama 3 rows that Megatron-Bridge publishes (TFLOP/s over tokens/s), beside
  the usual rule 6·N.
- Kept activations against what torch's autograd keeps (needs torch; left out without it).
- CPU time of one plan beside Calculon's per layout.  Calculon is on no package index: its figure was measured
  on another day on the same kind of machine, and it does more for it (it also predicts step time).
"""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import json
import statistics
import time
from pathlib import Path
from typing import Any

from l3_ylink.api import make_plan, read_shape
from l3_ylink.documents import ModelShape
from l3_ylink.trainkit.planning import activation_bytes, parameter_count, step_flops

PUBLISHED = Path(__file__).parents[1] / "tests" / "data" / "megatron_bridge_llama3.csv"
LLAMA3 = {
    "LLAMA3_8B": (32, 4096, 32, 8, 14336, 128256),
    "LLAMA3_70B": (80, 8192, 64, 8, 28672, 128256),
    "LLAMA3.1_405B": (126, 16384, 128, 8, 53248, 128256),
}
SMALL = [(2, 64, 4, 2, 176, 512), (4, 128, 4, 2, 352, 4096), (3, 96, 4, 1, 200, 700)]
CALCULON_MS = 1.76


def row(name: str, ours: float, peer: float, unit: str, bar: str, *, ok: bool, **more: str) -> dict[str, Any]:
    ratio = peer / ours if ours and peer else None
    figures = {"ours": ours, "peer": peer, "ratio": ratio, "unit": unit, "bar": bar, "ok": ok}
    return {"layer": "l3", "name": name, **figures, **more}


def shape(
    layers: int, hidden: int, heads: int, kv: int, ffn: int, vocabulary: int, sequence: int
) -> ModelShape:
    return ModelShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv,
        ffn_hidden=ffn,
        vocabulary=vocabulary,
        sequence=sequence,
        tied_embeddings=False,
    )


def flops_per_token() -> dict[str, Any]:
    ours, rule = [], []
    with open(PUBLISHED, encoding="utf-8") as stream:
        for line in csv.DictReader(stream):
            model = shape(*LLAMA3[line["model"]], int(line["seq"]))
            published = float(line["model_tflops_per_gpu"]) * 1e12 / float(line["tokens_per_s_per_gpu"])
            ours.append(abs(step_flops(model, 1, causal=True) / model.sequence / published - 1))
            rule.append(abs(6 * parameter_count(model) / published - 1))
    error = 100 * statistics.median(ours)
    return row(
        "FLOPs per token, median error",
        error,
        100 * statistics.median(rule),
        "%",
        "<= 0.5 %",
        ok=error <= 0.5,
        peer_version="the rule 6·N",
        how=f"{len(ours)} published rows of Llama 3 8B, 70B, 405B; largest error {100 * max(ours):.2f} %",
    )


def activations() -> dict[str, Any]:
    import torch
    from l3_ylink.trainkit.flows.llama import Llama

    errors = []
    for small in SMALL:
        model_shape = shape(*small, 64)
        model = Llama(model_shape)
        skip = {weight.data_ptr() for weight in model.parameters()} | {
            model.cos.data_ptr(),
            model.sin.data_ptr(),
        }
        kept: dict[int, torch.Tensor] = {}
        tokens = torch.zeros(2, model_shape.sequence, dtype=torch.int64)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor, kept=kept: kept.setdefault(tensor.untyped_storage().data_ptr(), tensor),
            lambda t: t,
        ):
            model(tokens, tokens)
        measured = sum(t.untyped_storage().nbytes() for place, t in kept.items() if place not in skip)
        errors.append(abs(activation_bytes(model_shape, 2, dtype="float32") / measured - 1))
    error = 100 * max(errors)
    return row(
        "kept activations, largest error",
        error,
        0.0,
        "%",
        "<= 1 %",
        ok=error <= 1,
        peer_version=f"torch {torch.__version__}, measured",
        how=f"bytes that autograd keeps, {len(SMALL)} shapes; the peer is the measurement itself",
    )


def speed(count: int = 2000) -> dict[str, Any]:
    llama = read_shape("llama3-8b")
    options: dict[str, Any] = {"steps": 1000, "global_batch": 256, "dtype": "bfloat16"}
    options["memory_limit_bytes"] = 80 << 30
    began = time.process_time()
    for _ in range(count):
        make_plan(llama, 64, recompute="full", **options)
    ours = 1000 * (time.process_time() - began) / count
    return row(
        "one plan",
        ours,
        CALCULON_MS,
        "CPU ms",
        "<= 1.76 ms",
        ok=ours <= CALCULON_MS,
        peer_version="Calculon, measured on another day",
        how=f"mean of {count}, micro-batch searched; Calculon also predicts step time, ours does not",
    )


def main() -> None:
    rows = [flops_per_token(), speed()]
    if importlib.util.find_spec("torch"):
        rows.append(activations())
    version = importlib.metadata.version("l3-ylink")
    print(json.dumps([{**line, "our_version": version} for line in rows], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
