"""A small real training: DDP over gloo, a checkpoint every 10 steps, resumes by itself.

    python train_ddp.py STEPS SECONDS_A_STEP

Data depend on step and rank alone, so an interrupted run has the losses of an undisturbed one.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from l2_aistation import progress
from torch import nn

EVERY = 10


def main() -> None:
    last, pause_s = int(sys.argv[1]), float(sys.argv[2])
    folder = Path(os.environ["OGAI_CHECKPOINT_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    step = load(folder, model, optimizer)
    while step < last:
        step += 1
        generator = torch.Generator().manual_seed(1000 * step + rank)
        data = torch.randn(32, 16, generator=generator)
        loss = ((model(data) - data[:, :4].sin()) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        progress.step(step, loss=mean.item() / dist.get_world_size(), samples=32)
        if step % EVERY == 0 and rank == 0:
            save(folder, step, model, optimizer)
        time.sleep(pause_s)
    print(f"rank {rank} done at step {step}", flush=True)
    dist.destroy_process_group()


def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    found = sorted(folder.glob("step-*.pt"))
    if not found:
        return 0
    state = torch.load(found[-1], weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    progress.resumed(state["step"])
    return int(state["step"])


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, folder / "unfinished")
    os.replace(folder / "unfinished", folder / f"step-{step:06d}.pt")
    progress.checkpoint(step)


if __name__ == "__main__":
    main()
