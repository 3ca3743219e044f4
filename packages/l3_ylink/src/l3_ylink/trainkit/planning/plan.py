"""`make_plan`: a layout of ranks in which the global batch comes out even and memory suffices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from l3_ylink._kit.documents import Producer, Reference
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import ModelShape, ParallelPlan

from . import cost
from .shapes import checked

ENGINES = ("deepspeed", "megatron")
RECOMPUTE = ("none", "full")
TOKENS_PER_PARAMETER = 20
"""About where loss per FLOP is best (Hoffmann et al., arXiv 2203.15556)."""


@dataclass(frozen=True)
class Layout:
    """How the ranks are shared out: world = data × tensor × pipeline."""

    world_size: int
    tensor_parallel: int
    pipeline_parallel: int

    @property
    def data_parallel(self) -> int:
        return self.world_size // (self.tensor_parallel * self.pipeline_parallel)

    def __str__(self) -> str:
        return (
            f"{self.world_size} ranks = {self.data_parallel} data × {self.tensor_parallel} tensor "
            f"× {self.pipeline_parallel} pipeline"
        )


def make_plan(
    shape: ModelShape,
    world_size: int,
    *,
    steps: int,
    global_batch: int | None = None,
    micro_batch: int | None = None,
    zero_stage: int = 1,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    dtype: str = "float32",
    recompute: str = "none",
    learning_rate: float | None = None,
    memory_limit_bytes: int | None = None,
    engine: str = "deepspeed",
    inputs: Iterable[Reference] = (),
    tokens: int | None = None,
) -> ParallelPlan:
    """The plan to train `shape` on `world_size` ranks for `steps` steps, with its reasons in words.

    `global_batch` counts sequences (default: four for each data-parallel rank).  Without
    `micro_batch` the largest is taken that keeps the forecast under `memory_limit_bytes` a rank.
    `tokens` is the size of the data set, for the remark on how often it is read.  Pure: nothing is
    started or read.  A layout that cannot work is a `BadInput` that shows the factorisation.
    """
    checked(shape)
    _one_of("engine", engine, ENGINES)
    _one_of("dtype", dtype, tuple(cost.BYTES_OF))
    _one_of("recompute", recompute, RECOMPUTE)
    _one_of("zero_stage", zero_stage, (0, 1, 2, 3))
    _at_least_one(steps=steps, world_size=world_size)
    layout = _layout(shape, world_size, tensor_parallel, pipeline_parallel)
    _engine_can(engine, layout, zero_stage)
    batch = 4 * layout.data_parallel if global_batch is None else global_batch
    _at_least_one(global_batch=batch)
    rate = _learning_rate(shape) if learning_rate is None else learning_rate
    if not (rate > 0 and math.isfinite(rate)):
        raise BadInput("must be more than 0", field="learning_rate")

    def forecast(size: int) -> cost.Memory:
        return cost.memory(
            shape,
            data_parallel=layout.data_parallel,
            tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel,
            zero_stage=zero_stage,
            micro_batch=size,
            dtype=dtype,
            recompute=recompute,
        )

    sizes = _micro_batches(layout, batch, micro_batch)
    size = next((n for n in sizes if forecast(n).total <= (memory_limit_bytes or math.inf)), None)
    if size is None:
        raise _too_big(layout, forecast(sizes[-1]), memory_limit_bytes or 0)
    accumulation = batch // (layout.data_parallel * size)
    plan = ParallelPlan(
        producer=_producer(),
        inputs=list(inputs),
        engine=engine,
        shape=shape,
        parameters=cost.parameter_count(shape),
        world_size=world_size,
        data_parallel=layout.data_parallel,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        zero_stage=zero_stage,
        micro_batch=size,
        gradient_accumulation=accumulation,
        global_batch=batch,
        dtype=dtype,
        recompute=recompute,
        steps=steps,
        learning_rate=rate,
        memory_bytes_per_rank=forecast(size).total,
        flops_per_step=cost.step_flops(shape, batch),
    )
    plan.reasons = [
        f"{layout}",
        f"global batch {batch} = {layout.data_parallel} data × {size} micro × {accumulation} accumulated",
        _why_micro_batch(micro_batch, memory_limit_bytes),
        *_memory_in_words(plan, forecast(size)),
        *_flops_in_words(plan),
        _tokens_in_words(plan, tokens),
    ]
    return plan


def wanted_world(plan: ParallelPlan, world_size: int) -> None:
    """Raises a `BadInput` when a plan is about to be carried out on another number of ranks."""
    if plan.world_size != world_size:
        raise BadInput(
            f"the plan is for {plan.world_size} ranks, this job has {world_size}",
            field="world_size",
            do=f"run it with {plan.world_size} tasks, or plan again with --world-size {world_size}",
        )


def _layout(shape: ModelShape, world_size: int, tensor: int, pipeline: int) -> Layout:
    _at_least_one(tensor_parallel=tensor, pipeline_parallel=pipeline)
    layout = Layout(world_size, tensor, pipeline)
    if world_size % (tensor * pipeline):
        raise BadInput(
            f"{world_size} ranks / ({tensor} tensor × {pipeline} pipeline) = "
            f"{world_size / (tensor * pipeline):.2f} data: not a whole number",
            field="world_size",
            do=f"let tensor × pipeline be one of {_divisors(world_size)}",
        )
    for name, count in (
        ("heads", shape.heads),
        ("kv_heads", shape.kv_heads),
        ("ffn_hidden", shape.ffn_hidden),
        ("vocabulary", shape.vocabulary),
    ):
        _must_divide(name, count, "tensor_parallel", tensor)
    _must_divide("layers", shape.layers, "pipeline_parallel", pipeline)
    return layout


def _must_divide(what: str, count: int, field: str, degree: int) -> None:
    if count % degree:
        raise BadInput(
            f"{what} {count} / {degree} = {count / degree:.2f}: not a whole number",
            field=field,
            do=f"choose one of {_divisors(count)}, or another {what}",
        )


def _engine_can(engine: str, layout: Layout, zero_stage: int) -> None:
    if engine != "deepspeed":
        return
    if layout.tensor_parallel * layout.pipeline_parallel > 1:
        raise BadInput(
            f"{layout}: the DeepSpeed flow is data parallel only",
            field="tensor_parallel" if layout.tensor_parallel > 1 else "pipeline_parallel",
            do="plan with --engine megatron, or with 1 tensor × 1 pipeline",
        )
    if zero_stage > 2:
        raise BadInput(
            "the DeepSpeed flow keeps whole parameters on every rank",
            field="zero_stage",
            do="take 0, 1 or 2, or --engine megatron",
        )


def _micro_batches(layout: Layout, batch: int, micro_batch: int | None) -> list[int]:
    """The sizes to try, largest first."""
    data = layout.data_parallel
    if batch % data:
        raise BadInput(
            f"{batch} sequences / {data} data = {batch / data:.2f}: not a whole number",
            field="global_batch",
            do=f"take a multiple of {data}, for example {math.ceil(batch / data) * data}",
        )
    a_rank = batch // data
    if micro_batch is None:
        return _divisors(a_rank)[::-1]
    _at_least_one(micro_batch=micro_batch)
    if a_rank % micro_batch:
        raise BadInput(
            f"{batch} sequences / {data} data / {micro_batch} micro-batch = "
            f"{a_rank / micro_batch:.2f} accumulated: not a whole number",
            field="micro_batch",
            do=f"take one of {_divisors(a_rank)}",
        )
    return [micro_batch]


def _too_big(layout: Layout, least: cost.Memory, limit: int) -> BadInput:
    return BadInput(
        f"{layout} needs at least {human(least.total)} a rank, over the limit of {human(limit)}",
        why=f"model states {human(least.states.total)}, activations {human(least.activations)}",
        field="memory_limit_bytes",
        do="use more ranks, a higher ZeRO stage, recompute full, or a shorter sequence",
    )


def _why_micro_batch(given: int | None, limit: int | None) -> str:
    if given is not None:
        return "micro-batch as given"
    if limit is None:
        return "no memory limit given: the whole share of a rank in one micro-batch"
    return f"the largest micro-batch whose forecast stays under {human(limit)} a rank"


def _memory_in_words(plan: ParallelPlan, forecast: cost.Memory) -> list[str]:
    states = forecast.states
    shared = {0: "nothing", 1: "the optimizer", 2: "optimizer and gradients", 3: "all states"}
    parts = {
        "parameters": states.parameters,
        "gradients": states.gradients,
        "optimizer": states.optimizer,
        "activations": forecast.activations,
        "logits' gradient": forecast.workspace,
    }
    return [
        f"memory a rank {human(forecast.total)}: "
        + ", ".join(f"{name} {human(count)}" for name, count in parts.items()),
        f"ZeRO-{plan.zero_stage} divides {shared[plan.zero_stage]} by {plan.data_parallel}",
    ]


def _flops_in_words(plan: ParallelPlan) -> list[str]:
    hardware = cost.hardware_flops(plan.shape, plan.global_batch, plan.recompute)
    return [
        f"{plan.flops_per_step:.3e} model FLOPs a step (MFU), {hardware:.3e} with recomputation (HFU)",
        f"MFU is {plan.flops_per_step / hardware:.2f} × HFU with recompute {plan.recompute}",
    ]


def _tokens_in_words(plan: ParallelPlan, tokens: int | None) -> str:
    read = plan.steps * plan.global_batch * plan.shape.sequence
    best = f"about {TOKENS_PER_PARAMETER} is best"
    words = f"reads {read:,} tokens, {read / plan.parameters:.2g} a parameter ({best})"
    return words if not tokens else f"{words}, {read / tokens:.2g} epochs of the data set"


def _learning_rate(shape: ModelShape) -> float:
    """Kaplan et al. (arXiv 2001.08361, eq. D.1): falls with the logarithm of the size; at least 1e-4."""
    return round(max(1e-4, 0.003239 - 0.0001395 * math.log(cost.parameter_count(shape))), 6)


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise BadInput(f"is {value}, must be at least 1", field=name)


def _one_of(field: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise BadInput(f"{value!r} is unknown", field=field, do=f"take one of {', '.join(map(str, allowed))}")


def human(count: float) -> str:
    """Bytes as people read them: 1.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def _producer() -> Producer:
    from l3_ylink import __version__

    return Producer(name="l3-ylink", version=__version__)
