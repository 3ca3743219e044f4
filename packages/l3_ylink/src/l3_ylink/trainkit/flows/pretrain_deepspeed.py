"""Pretraining with DeepSpeed's engine on CPU ranks over gloo; reads top to bottom.

Each rank runs `python -m l3_ylink.trainkit.flows.pretrain_deepspeed --plan P --data D --out O` with
torchrun's variables.  It goes on from the newest sound checkpoint by itself, and its loss curve is
then that of an undisturbed run: which samples a step reads depends on the step alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l3_ylink._kit.files import atomic_write
from l3_ylink.documents import DatasetManifest, ParallelPlan
from l3_ylink.trainkit.checkpoint.store import CheckpointStore, is_about_writing, save_failed, seal
from l3_ylink.trainkit.environment import Rank, checkpoint_folder, in_shared
from l3_ylink.trainkit.planning import hardware_flops, mfu, wanted_world
from l3_ylink.trainkit.program import RESULT, StepLog, read_steps, reporter_of_platform, run_program
from l3_ylink.trainkit.tokens import TokenDataset, open_dataset, position_of, read_manifest, tokenizer_file

WARM_UP = 0.05
"""Part of the steps over which the learning rate rises; it then falls along a cosine to a tenth."""
ENGINE = "engine"
"""The sub-folder of a checkpoint that DeepSpeed writes and reads."""


@dataclass(frozen=True)
class Inputs:
    """All that a rank needs, checked before anything heavy is loaded."""

    rank: Rank
    plan: ParallelPlan
    manifest: DatasetManifest
    data: TokenDataset
    data_path: Path
    out: Path
    store: CheckpointStore
    every: int
    seed: int

    def identity(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to be continued."""
        return {"plan": self.plan.digest(), "data": self.manifest.digest(), "seed": self.seed}


def main() -> None:
    """One rank, start to end."""
    inputs = read_inputs()
    engine = start_engine(inputs)
    log = StepLog(inputs.out, inputs.rank.attempt, reporter_of_platform()) if inputs.rank.is_first else None
    step = resume(engine, inputs)
    if log is not None and step:
        log.resumed(step)
    peak = measured_peak_flops()

    while step < inputs.plan.steps:
        began = time.monotonic()
        set_learning_rate(engine, inputs.plan, step)
        loss = train_step(engine, inputs, step)
        step += 1
        if log is not None:
            log.step(step, loss=loss, seconds=time.monotonic() - began, samples=inputs.plan.global_batch)
        if step % inputs.every == 0 or step == inputs.plan.steps:
            save(engine, inputs, step)
            if log is not None:
                log.checkpoint(step)

    if inputs.rank.is_first:
        export(engine, inputs, peak)
    finish()


def read_inputs() -> Inputs:
    """Parses the command line and checks plan, data and world size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", required=True, help="parallel-plan.json")
    parser.add_argument("--data", required=True, help="dataset-manifest.json or its folder")
    parser.add_argument("--out", required=True, help="folder for model and step log")
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--keep", type=int, default=2, help="checkpoints to keep")
    parser.add_argument("--seed", type=int, default=0, help="of weights and sample order")
    args = parser.parse_args()
    rank = Rank.of(os.environ)
    plan = ParallelPlan.read(in_shared(args.plan))
    wanted_world(plan, rank.world_size)
    data_path, out = in_shared(args.data), in_shared(args.out)
    manifest = read_manifest(data_path)
    data = open_dataset(
        data_path,
        manifest,
        sequence=plan.shape.sequence,
        seed=args.seed,
        vocabulary=plan.shape.vocabulary,
        verify=rank.local_rank == 0,
    )
    store = CheckpointStore(checkpoint_folder(out), keep=args.keep)
    return Inputs(rank, plan, manifest, data, data_path, out, store, args.checkpoint_every, args.seed)


def start_engine(inputs: Inputs) -> Any:
    """The process group and DeepSpeed's engine around our model and torch's AdamW."""
    alone = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }
    for name, value in {"DS_ACCELERATOR": "cpu", **alone}.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    import deepspeed
    import torch

    from .llama import Llama

    torch.set_num_threads(1)
    # DeepSpeed would compile a shared-memory collective with g++ here; gloo needs none.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.utils.logger.setLevel("WARNING")
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    plan = inputs.plan
    model = Llama(plan.shape, inputs.seed, recompute=plan.recompute == "full")
    optimizer = torch.optim.AdamW(
        parameter_groups(model), lr=plan.learning_rate, betas=(0.9, 0.95), eps=1e-8, foreach=True
    )
    with without_compiler():
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=deepspeed_config(plan))
    return engine


@contextlib.contextmanager
def without_compiler() -> Iterator[None]:
    """Keeps torch's compiler unloaded: DeepSpeed imports an optimizer (Muon) whose functions it decorates.

    Nothing here is compiled, and loading Inductor takes as long as all the rest of the start.
    """
    import torch

    compile_, torch.compile = torch.compile, lambda function=None, **_options: function or (lambda f: f)
    try:
        yield
    finally:
        torch.compile = compile_


def deepspeed_config(plan: ParallelPlan) -> dict[str, Any]:
    """The plan in DeepSpeed's words; a torch optimizer, so that nothing is compiled."""
    return {
        "train_batch_size": plan.global_batch,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.gradient_accumulation,
        "gradient_clipping": 1.0,
        "steps_per_print": 1 << 30,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {"stage": plan.zero_stage},
        "bf16": {"enabled": plan.dtype == "bfloat16"},
        "fp16": {"enabled": plan.dtype == "float16"},
    }


def parameter_groups(model: Any) -> list[dict[str, Any]]:
    """Matrices decay, norms do not."""
    weights = list(model.parameters())
    return [
        {"params": [weight for weight in weights if weight.dim() >= 2], "weight_decay": 0.1},
        {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": 0.0},
    ]


def set_learning_rate(engine: Any, plan: ParallelPlan, step: int) -> None:
    """Linear warm-up, then a cosine down to a tenth of the plan's rate."""
    warm_up = max(1, round(WARM_UP * plan.steps))
    if step < warm_up:
        rate = plan.learning_rate * (step + 1) / warm_up
    else:
        done = (step - warm_up) / max(1, plan.steps - warm_up)
        rate = plan.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))
    for group in engine.optimizer.param_groups:
        group["lr"] = rate


def train_step(engine: Any, inputs: Inputs, step: int) -> float:
    """One step on this rank's share of the global batch; returns the mean loss over all ranks."""
    import torch
    import torch.distributed as dist

    total = torch.zeros(())
    for tokens in micro_batches(inputs, step):
        batch = torch.from_numpy(tokens)
        loss = engine(batch[:, :-1].contiguous(), batch[:, 1:].contiguous())
        engine.backward(loss)
        engine.step()
        total += loss.detach().float()
    dist.all_reduce(total)
    loss = float(total) / (inputs.plan.gradient_accumulation * inputs.plan.data_parallel)
    if not math.isfinite(loss):
        raise FloatingPointError(f"loss is {loss} at step {step + 1}")
    return loss


def micro_batches(inputs: Inputs, step: int) -> Iterator[Any]:
    """This rank's token rows of a step, [micro_batch, sequence + 1] each."""
    plan = inputs.plan
    for accumulated in range(plan.gradient_accumulation):
        first = position_of(
            step,
            accumulated,
            inputs.rank.rank,
            global_batch=plan.global_batch,
            micro_batch=plan.micro_batch,
            data_parallel=plan.data_parallel,
        )
        yield inputs.data.batch(first, plan.micro_batch)


def resume(engine: Any, inputs: Inputs) -> int:
    """Loads the newest sound checkpoint, the same on every rank; returns the steps already done."""
    import torch.distributed as dist

    found: list[Any] = [None]
    if inputs.rank.is_first:
        found = [choose_checkpoint(inputs)]
    dist.broadcast_object_list(found, src=0)
    if found[0] is None:
        return 0
    folder, step = found[0]
    engine.load_checkpoint(folder, tag=ENGINE)
    return int(step)


def choose_checkpoint(inputs: Inputs) -> tuple[str, int] | None:
    """Folder and step of the checkpoint to go on from, said aloud."""
    checkpoint = inputs.store.newest(inputs.identity())
    for warning in inputs.store.warnings:
        print(f"warning: {warning}", flush=True)
    if checkpoint is None:
        return None
    return str(checkpoint.folder), checkpoint.step


def save(engine: Any, inputs: Inputs, step: int) -> None:
    """A checkpoint after `step` steps; every rank writes its part, the first one makes it count."""
    import torch.distributed as dist

    store, rank = inputs.store, inputs.rank
    try:
        if rank.is_first:
            store.begin(step)
        dist.barrier()
        partial = store.partial(step)
        engine.save_checkpoint(str(partial), tag=ENGINE, save_latest=False)
        rows: list[Any] = [None] * rank.world_size
        dist.all_gather_object(rows, seal(partial, own_files(partial, rank)))
        if rank.is_first:
            files = {name: row for part in rows for name, row in part.items()}
            store.commit(step, files, inputs.identity())
        dist.barrier()
    except (OSError, RuntimeError) as error:
        if not is_about_writing(error):
            raise
        problem = save_failed(error, store.folder, step)
        store.abandon(step)
        raise problem from error


def own_files(partial: Path, rank: Rank) -> list[str]:
    """The files that this rank wrote: its optimizer part, and on the first rank the shared rest."""
    names = sorted(str(path.relative_to(partial)) for path in partial.rglob("*") if path.is_file())
    mine = [name for name in names if f"pp_rank_{rank.rank}_" in name]
    return mine + [name for name in names if rank.is_first and "pp_rank_" not in name]


def measured_peak_flops(size: int = 512) -> float:
    """FLOP/s that all ranks together reach in float32 matrix products, all at once: MFU's divisor here."""
    import torch
    import torch.distributed as dist

    a = torch.randn(size, size)
    dist.barrier()
    times = []
    for _ in range(5):
        began = time.perf_counter()
        torch.mm(a, a)
        times.append(time.perf_counter() - began)
    rate = torch.tensor(2.0 * size**3 / statistics.median(times), dtype=torch.float64)
    dist.all_reduce(rate)
    return float(rate)


def export(engine: Any, inputs: Inputs, peak_flops: float) -> None:
    """Writes the model as a Hugging Face folder, then `result.json`: its presence means done."""
    from .export import write_model

    plan = inputs.plan
    tokenizer = tokenizer_file(inputs.data_path, inputs.manifest)
    write_model(engine.module, plan, inputs.out / "model", tokenizer)
    step_s = statistics.median(row["seconds"] for row in read_steps(inputs.out))
    hardware = hardware_flops(plan.shape, plan.global_batch, plan.recompute)
    metrics = {
        "step_s": step_s,
        "tokens_per_s": plan.global_batch * plan.shape.sequence / step_s,
        "peak_flops": peak_flops,
        "mfu": mfu(plan.flops_per_step, step_s, peak_flops),
        "hfu": mfu(hardware, step_s, peak_flops),
    }
    result = {"steps": plan.steps, "samples": plan.steps * plan.global_batch, "metrics": metrics}
    atomic_write(inputs.out / RESULT, json.dumps(result | inputs.identity(), indent=1))


def finish() -> None:
    """Leaves together, so that no rank's exit is taken for a fault."""
    import torch.distributed as dist

    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    run_program(main)
