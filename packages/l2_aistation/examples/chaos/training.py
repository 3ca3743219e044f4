"""A small real training that can be disturbed: gloo, four ranks, checkpoints in memory and on storage.

    training.py STEPS SECONDS_A_STEP

What a step computes depends on the step alone, so a run that was disturbed has the losses of a calm one.
A file `nan` in the working folder spoils the losses once, as bad data would.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from l2_aistation.api import progress
from l2_aistation.checkpoint import Checkpointer
from torch import nn


def main() -> None:
    """Trains, as one rank of four."""
    last, pause_s = int(sys.argv[1]), float(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    spoilt = Path("nan")
    with Checkpointer(os.environ["OGAI_CHECKPOINT_DIR"], every=5, replicated=True) as keeper:
        found = keeper.restore()
        if found is not None:
            model.load_state_dict(found.state["model"])
            optimizer.load_state_dict(found.state["optimizer"])
        for step in range(found.step + 1 if found else 0, last):
            data = torch.randn(32, 16, generator=torch.Generator().manual_seed(1000 * step + rank))
            loss = ((model(data) - data[:, :4].sin()) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= world
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            progress.step(step, loss=float("nan") if spoilt.exists() else mean.item() / world)
            if keeper.due(step) and not spoilt.exists():
                keeper.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
            time.sleep(pause_s)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
