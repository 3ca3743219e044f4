"""A small data-parallel training that keeps checkpoints; run by test_checkpoint_faults.py.

    python kept_training.py FOLDER MEMORY ATTEMPT RANKS STEPS

Each two ranks are one node, with memory of its own below MEMORY.  Imports are done once, then the ranks fork.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers load it when they are first made: once here, not once in each rank
import torch.distributed as dist
from l2_aistation.checkpoint import Checkpointer, ResumableSampler

SAMPLES, BATCH = 64, 8


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """A regression problem, the same for everybody."""
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(SAMPLES, 16, generator=generator)
    return inputs, inputs @ torch.randn(16, 4, generator=generator)


def log(folder: Path, rank: int, row: dict[str, Any]) -> None:
    with open(folder / f"log-{rank}.jsonl", "a", encoding="utf-8") as stream:
        stream.write(json.dumps(row) + "\n")


def train(folder: Path, memory: Path, attempt: int, rank: int, world: int, last: int) -> None:
    """One rank."""
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / f"store-{attempt}"), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    node = f"node{rank // 2}"
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    sampler = ResumableSampler(SAMPLES, BATCH, rank=rank, world_size=world, seed=3)
    keeper = Checkpointer(
        folder / "checkpoints",
        rank=rank,
        world_size=world,
        attempt=attempt,
        every=2,
        memory=memory / node,
        domain=node,
        replicated=True,
    )
    found = keeper.restore()
    if found is not None:
        model.load_state_dict(found.state["model"])
        optimizer.load_state_dict(found.state["optimizer"])
        sampler.load_state_dict(found.state["sampler"])
        log(folder, rank, {"attempt": attempt, "resumed": found.step, "source": found.source})
    inputs, targets = data()
    for step in range(found.step + 1 if found else 0, last):
        indices = sampler.next()
        # before the others can have used this rank's share, and saved what it did to the weights
        log(folder, rank, {"attempt": attempt, "step": step, "indices": indices})
        optimizer.zero_grad()
        loss = (model(inputs[indices].double()) - targets[indices].double()).square().mean()
        loss.backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        if keeper.due(step):
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            keeper.save(step, {**state, "sampler": sampler.state_dict()})
    dist.barrier()
    if rank == 0:
        torch.save(model.state_dict(), folder / "weights.pt")
    keeper.close()
    dist.destroy_process_group()


def main() -> None:
    """Forks the ranks and waits for them; their process ids are told first."""
    folder, memory = Path(sys.argv[1]), Path(sys.argv[2])
    attempt, world, last = map(int, sys.argv[3:6])
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            train(folder, memory, attempt, rank, world, last)
            os._exit(0)
        children.append(child)
    print(json.dumps(children), flush=True)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
