"""The program that bench_healing.py trains under both launchers: DDP over gloo, 4 ranks, checkpoints.

Each step of each rank is one line `rank pid step time` in $BENCH_STEPS.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

EVERY = 10


def main() -> None:
    folder = Path(os.environ["BENCH_CHECKPOINTS"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=float(os.environ.get("BENCH_TIMEOUT_S", "60"))))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    found = sorted(folder.glob("step-*.pt"))
    step = 0
    if found:
        state = torch.load(found[-1], weights_only=True)
        model.load_state_dict(state["model"])
        step = state["step"]
    steps = os.open(os.environ["BENCH_STEPS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while step < int(os.environ["BENCH_LAST"]):
        step += 1
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        os.write(steps, f"{rank} {os.getpid()} {step} {time.time()}\n".encode())
        if step % EVERY == 0 and rank == 0:
            torch.save({"step": step, "model": model.state_dict()}, folder / "unfinished")
            os.replace(folder / "unfinished", folder / f"step-{step:06d}.pt")
        time.sleep(0.1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
