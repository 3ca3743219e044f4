"""Supervised fine-tuning of a small adapter (LoRA, arXiv 2106.09685); reads top to bottom.

`python -m l3_ylink.ftkit.sft.lora --base MODEL --data INSTRUCTIONS --out DIR`.  The base stays as it
is; the adapter is what is trained, checkpointed and written.  Started again, it goes on from the
newest sound checkpoint with the rows that an undisturbed run would have seen.
"""

from __future__ import annotations

import argparse
import contextlib
import io
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
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import DatasetManifest, ModelManifest
from l3_ylink.models.manifest import read_model
from l3_ylink.trainkit.checkpoint.store import CheckpointStore, is_about_writing, save_failed, seal
from l3_ylink.trainkit.environment import Rank, checkpoint_folder, in_shared
from l3_ylink.trainkit.program import RESULT, StepLog, read_steps, reporter_of_platform, run_program
from l3_ylink.trainkit.tokens import shuffled

from .rows import Row, encode_all, read_instructions

WARM_UP = 0.1
HELD_OUT = 0.1
"""Part of the rows, 64 at most, that is not trained on: their loss before and after tells what was learnt."""
TARGETS = {"all": "all-linear", "attention": ["q_proj", "k_proj", "v_proj", "o_proj"]}
STATE = "state.pt"


@dataclass(frozen=True)
class Inputs:
    """All that the run needs, checked before anything heavy is loaded."""

    args: argparse.Namespace
    rank: Rank
    base: Path
    base_manifest: ModelManifest
    manifest: DatasetManifest
    conversations: list[Any]
    out: Path
    store: CheckpointStore

    def identity(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to be continued."""
        chosen = {
            name: value for name, value in vars(self.args).items() if name not in ("base", "data", "out")
        }
        return {"base": self.base_manifest.digest(), "data": self.manifest.digest(), "options": chosen}


def main() -> None:
    """The run, start to end."""
    inputs = read_inputs()
    args = inputs.args
    model, tokenizer = load_model(inputs)
    rows, too_long = encode_all(tokenizer, inputs.conversations, args.max_length)
    held_out, rows = split(rows, args.seed)
    optimizer = make_optimizer(model, args.learning_rate)
    log = StepLog(inputs.out, inputs.rank.attempt, reporter_of_platform())
    step, before = resume(model, optimizer, inputs)
    if before is None:
        before = evaluate(model, held_out, args.batch, tokenizer.pad_token_id)
    else:
        log.resumed(step)

    while step < args.steps:
        began = time.monotonic()
        set_learning_rate(optimizer, args, step)
        loss = train_step(model, optimizer, batch_of(rows, step, args), tokenizer.pad_token_id)
        step += 1
        log.step(step, loss=loss, seconds=time.monotonic() - began, samples=args.batch)
        if step % args.checkpoint_every == 0 or step == args.steps:
            save(model, optimizer, inputs, step, before)
            log.checkpoint(step)

    after = evaluate(model, held_out, args.batch, tokenizer.pad_token_id)
    metrics = {"held_out_loss_before": before, "held_out_loss_after": after, "rows_too_long": too_long}
    step_s = statistics.median(row["seconds"] for row in read_steps(inputs.out))
    export(model, inputs, metrics | {"step_s": step_s})


def read_inputs() -> Inputs:
    """Parses the command line and checks base, data and numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="folder of the base model, with its manifest")
    parser.add_argument("--data", required=True, help="dataset-manifest.json of instructions, or its folder")
    parser.add_argument("--out", required=True, help="folder for adapter and step log")
    parser.add_argument("--steps", type=int, default=30, help="optimizer steps")
    parser.add_argument("--batch", type=int, default=8, help="rows a step")
    parser.add_argument("--rank", type=int, default=8, help="rank of the adapter's matrices")
    parser.add_argument(
        "--targets", choices=sorted(TARGETS), default="attention", help="which projections get one"
    )
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--max-length", type=int, default=512, help="tokens; longer rows are left out")
    parser.add_argument(
        "--dtype", choices=("auto", "float32", "bfloat16"), default="auto", help="of the frozen base"
    )
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--keep", type=int, default=2, help="checkpoints to keep")
    parser.add_argument("--seed", type=int, default=0, help="of adapter, split and order of rows")
    args = parser.parse_args()
    for name in ("steps", "batch", "rank", "max_length", "checkpoint_every", "keep"):
        if getattr(args, name) < 1:
            raise BadInput(f"is {getattr(args, name)}, must be at least 1", field=name)
    if not (0 < args.learning_rate < math.inf):
        raise BadInput("must be more than 0", field="learning_rate")
    rank = Rank.of(os.environ)
    if rank.world_size != 1:
        raise BadInput(
            f"is {rank.world_size}; this program runs as one task", field="world_size", do="give count 1"
        )
    base, base_manifest = read_model(in_shared(args.base))
    manifest, conversations = read_instructions(in_shared(args.data))
    out = in_shared(args.out)
    store = CheckpointStore(checkpoint_folder(out), keep=args.keep)
    return Inputs(args, rank, base, base_manifest, manifest, conversations, out, store)


def load_model(inputs: Inputs) -> tuple[Any, Any]:
    """The base from safetensors, frozen, with a fresh adapter; and its tokenizer with a chat template."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)  # between peft and transformers
    torch.manual_seed(inputs.args.seed)
    tokenizer = AutoTokenizer.from_pretrained(inputs.base)
    if not tokenizer.chat_template:
        raise BadInput("the base has no chat template", field="base", do="take an instruct model as the base")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    with contextlib.redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(inputs.base, dtype=base_dtype(inputs.args.dtype))
    config = LoraConfig(
        r=inputs.args.rank,
        lora_alpha=2 * inputs.args.rank,
        target_modules=TARGETS[inputs.args.targets],
        task_type="CAUSAL_LM",
        base_model_name_or_path=inputs.base_manifest.name,
    )
    return get_peft_model(model, config), tokenizer


def base_dtype(name: str) -> Any:
    """bfloat16 where the processor multiplies it natively (it halves the time), else float32."""
    import torch

    if name == "auto":
        fast = torch.cuda.is_available() or torch.cpu._is_avx512_bf16_supported()
        name = "bfloat16" if fast else "float32"
    return getattr(torch, name)


def split(rows: list[Row], seed: int) -> tuple[list[Row], list[Row]]:
    """Held-out rows and training rows, by a shuffle that the seed fixes."""
    count = min(64, int(len(rows) * HELD_OUT))
    order = shuffled(len(rows), seed, 0)
    return [rows[i] for i in order[:count]], [rows[i] for i in order[count:]]


def batch_of(rows: list[Row], step: int, args: argparse.Namespace) -> list[Row]:
    """The rows of a step: a function of seed and step alone, each row once an epoch."""
    positions = (divmod(step * args.batch + i, len(rows)) for i in range(args.batch))
    return [rows[int(shuffled(len(rows), args.seed + 1, epoch)[place])] for epoch, place in positions]


def make_optimizer(model: Any, learning_rate: float) -> Any:
    """AdamW over the adapter's weights."""
    import torch

    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return torch.optim.AdamW(weights, lr=learning_rate, weight_decay=0.0)


def set_learning_rate(optimizer: Any, args: argparse.Namespace, step: int) -> None:
    """Linear warm-up, then linear down to a tenth."""
    warm_up = max(1, round(WARM_UP * args.steps))
    done = (step - warm_up) / max(1, args.steps - warm_up)
    factor = (step + 1) / warm_up if step < warm_up else 1 - 0.9 * done
    for group in optimizer.param_groups:
        group["lr"] = args.learning_rate * factor


def train_step(model: Any, optimizer: Any, rows: list[Row], pad: int) -> float:
    """One optimizer step; returns the mean loss per learnt token."""
    import torch

    model.train()
    loss, learnt = loss_of(model, rows, pad)
    (loss / learnt).backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    value = float(loss.detach()) / learnt
    if not math.isfinite(value):
        raise FloatingPointError(f"loss is {value}")
    return value


def evaluate(model: Any, rows: list[Row], batch: int, pad: int) -> float:
    """Mean loss per learnt token over held-out rows; 0 where there are none."""
    import torch

    model.eval()
    total, learnt = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(rows), batch):
            loss, count = loss_of(model, rows[start : start + batch], pad)
            total, learnt = total + float(loss), learnt + count
    return total / learnt if learnt else 0.0


def loss_of(model: Any, rows: list[Row], pad: int) -> tuple[Any, int]:
    """Summed cross-entropy over the learnt tokens, and their number; logits are made for these only."""
    import torch

    ids, attend, learn = padded(rows, pad)
    causal = model.get_base_model()
    with torch.autocast("cpu", torch.bfloat16, enabled=causal.dtype == torch.bfloat16):
        hidden = causal.get_decoder()(input_ids=ids, attention_mask=attend).last_hidden_state
        logits = causal.get_output_embeddings()(hidden[:, :-1][learn[:, 1:]])
    targets = ids[:, 1:][learn[:, 1:]]
    return torch.nn.functional.cross_entropy(logits.float(), targets, reduction="sum"), len(targets)


def padded(rows: list[Row], pad: int) -> tuple[Any, Any, Any]:
    """ids, attention and loss mask, each [rows, longest]; shorter rows are filled on the right."""
    import torch

    longest = max(len(row.ids) for row in rows)

    def filled(values: Iterator[list[Any]], *, fill: Any) -> Any:
        return torch.tensor([list(value) + [fill] * (longest - len(value)) for value in values])

    ids = filled((row.ids for row in rows), fill=pad)
    attend = filled(([1] * len(row.ids) for row in rows), fill=0)
    learn = filled((row.learn for row in rows), fill=False)
    return ids, attend, learn


def save(model: Any, optimizer: Any, inputs: Inputs, step: int, before: float) -> None:
    """A checkpoint of adapter and optimizer."""
    import torch
    from peft import get_peft_model_state_dict

    try:
        partial = inputs.store.begin(step)
        state = {"adapter": get_peft_model_state_dict(model), "optimizer": optimizer.state_dict()}
        torch.save(state, partial / STATE)
        notes = inputs.identity() | {"held_out_loss_before": before}
        inputs.store.commit(step, seal(partial, [STATE]), notes)
    except (OSError, RuntimeError) as error:
        if not is_about_writing(error):
            raise
        problem = save_failed(error, inputs.store.folder, step)
        inputs.store.abandon(step)
        raise problem from error


def resume(model: Any, optimizer: Any, inputs: Inputs) -> tuple[int, float | None]:
    """Loads the newest sound checkpoint; returns the steps done and the loss noted before the first."""
    import torch
    from peft import set_peft_model_state_dict

    checkpoint = inputs.store.newest(inputs.identity())
    for warning in inputs.store.warnings:
        print(f"warning: {warning}", flush=True)
    if checkpoint is None:
        return 0, None
    state = torch.load(checkpoint.folder / STATE, weights_only=True)
    set_peft_model_state_dict(model, state["adapter"])
    optimizer.load_state_dict(state["optimizer"])
    return checkpoint.step, float(checkpoint.notes["held_out_loss_before"])


def export(model: Any, inputs: Inputs, metrics: dict[str, float]) -> None:
    """Writes the adapter in PEFT's layout, then `result.json`: its presence means done."""
    folder = inputs.out / "model"
    model.save_pretrained(folder, safe_serialization=True)
    (folder / "README.md").unlink(missing_ok=True)  # PEFT's model card template, all blanks
    settings = json.loads((folder / "adapter_config.json").read_bytes())
    settings["target_modules"] = sorted(
        settings["target_modules"]
    )  # PEFT keeps a set: another order each time
    atomic_write(folder / "adapter_config.json", json.dumps(settings, indent=1, sort_keys=True))
    parameters = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    samples = inputs.args.steps * inputs.args.batch
    result = {"steps": inputs.args.steps, "samples": samples, "parameters": parameters, "metrics": metrics}
    atomic_write(inputs.out / RESULT, json.dumps(result | inputs.identity(), indent=1))


if __name__ == "__main__":
    run_program(main)
