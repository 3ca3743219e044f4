"""`Checkpointer`: what a training loop calls."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from l2_aistation import progress
from l2_aistation._kit.problems import BadInput, Failed
from l2_aistation.core.reliability import FailureRate, IntervalPlan, plan_interval

from .answers import Answers
from .layout import lay_out
from .places import Places
from .segment import Segment
from .storage import Storage
from .writer import Orders

Gather = Callable[[Any], list[Any]]
"""Gives every rank the list of what all ranks gave, in the order of ranks."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A state that was found: the step after which it was taken, and where it came from.

    `source` is memory, replica or storage.
    """

    step: int
    state: Any
    source: str


class Checkpointer:
    """Saves into memory that outlives the trainer, replicates it, writes it through, restores the newest.

    `folder` is on storage that all ranks see.  Rank, world size and attempt come from the environment
    (RANK, WORLD_SIZE, OGAI_ATTEMPT) or as arguments.  Ranks agree through `torch.distributed` when it is
    initialised, or through `gather`.

    `every`: steps between saves, or None: planned by Young and Daly from the measured stall, step time and
    failures.  `rate`: most bytes a second that this rank writes to storage.  `replicated`: every rank's state
    is the same, so another number of ranks can go on with it.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        attempt: int | None = None,
        every: int | None = None,
        keep: int = 2,
        memory: Path | str | None = None,
        replicate: bool = True,
        replicated: bool = False,
        domain: str | None = None,
        address: str | None = None,
        rate: float | None = None,
        failures: FailureRate | None = None,
        gather: Gather | None = None,
    ) -> None:
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.world_size = int(os.environ.get("WORLD_SIZE", "1")) if world_size is None else world_size
        self.attempt = int(os.environ.get("OGAI_ATTEMPT", "0")) if attempt is None else attempt
        if every is not None and every < 1:
            raise BadInput(
                "must be at least 1", field="every", do="give steps between saves, or leave it out"
            )
        self.every, self.plan = every, None if every else _FIRST_PLAN
        self._failures = failures or FailureRate(0, 0.0)
        self._replicated, self._gather = replicated, gather or _gather_of(self.world_size)
        self.storage = Storage(Path(folder), keep=keep)
        run, token = self._same_for_all(_run_of(Path(folder), self.rank))
        memory = Path(memory or os.environ.get("OGAI_MEMORY_DIR") or f"/dev/shm/ogai-{os.getuid()}")  # noqa: S108
        self.segment = Segment(memory, run, self.rank)
        orders = Orders(
            str(folder), str(memory), run, self.rank, self.world_size, self.attempt, keep, token, rate
        )
        self._writer, self.answers = _start(orders)
        self.places = Places(orders, self.answers.port(), domain, address, self._gather)
        peer = self.places.peer() if replicate else None
        if peer is not None:
            self._tell({"peer": peer})
        self.stopping = False
        self.stall = 0.0
        self._last_save: tuple[int, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close(forget=kind is None)

    @property
    def durable(self) -> int | None:
        """The newest step that is whole on the storage, as far as this rank has heard."""
        self.answers.listen()
        return self.answers.durable

    def due(self, step: int) -> bool:
        """Whether to save after this step; the same on every rank."""
        if self.every is not None:
            return (step + 1) % self.every == 0
        assert self.plan is not None
        last = -1 if self._last_save is None else self._last_save[0]
        return step - last >= self.plan.steps

    def save(self, step: int, state: Any) -> float:
        """Copies the state into memory and returns the seconds that it took; all else happens behind it.

        Call it on every rank, between `optimizer.step()` and the next change of the state.  Raises `BadInput`
        for a value that cannot be kept, `Failed` when the memory is too small.
        """
        begun = time.monotonic()
        layout = lay_out(state, {"world_size": self.world_size})
        try:
            self.segment.save(layout, step, self.attempt, self.world_size)
        except OSError as error:
            raise Failed(
                f"no memory for the checkpoint of step {step}: {layout.size} bytes, twice",
                why=error.strerror or str(error),
                do="give the node a larger /dev/shm, or another memory folder",
            ) from error
        self._tell({"saved": step})
        self.answers.listen(on_durable=progress.checkpoint if self.rank == 0 else None)
        self.stall = time.monotonic() - begun
        self._replan(step)
        return self.stall

    def restore(self, *, at_most: int | None = None) -> Restored | None:
        """The newest step that every rank can have: from memory, a replica, or the storage.

        With `at_most` (or where the platform asks for it after a spoilt loss) the run goes back to that
        step or the last one before it, and what was saved later is forgotten.  A damaged source is passed
        over for the next one, a damaged step for the one before.  None where there was never a checkpoint;
        `Failed` where all that there are cannot be read.
        """
        if at_most is None and (asked := os.environ.get("OGAI_ROLLBACK_STEP")):
            at_most = int(asked)
        found = self.places.find(self.storage, self.segment, replicated=self._replicated, at_most=at_most)
        if found is None:
            if at_most is not None:
                self.places.drop_after(self.storage, self.segment, -1)
            return None
        step, (state, notes), source = found
        if notes["world_size"] != self.world_size and not self._replicated:
            raise BadInput(
                f"was written by {notes['world_size']} ranks, this run has {self.world_size}",
                field=str(self.storage.folder.name),
                do="run with the same number of ranks, or save with replicated=True or save_sharded",
            )
        if at_most is not None:
            self.places.drop_after(self.storage, self.segment, step)
        self._last_save = (step, time.monotonic())
        progress.resumed(step)
        return Restored(step, state, source)

    def wait(self, step: int, patience_s: float = 600.0) -> None:
        """Waits until a step (or a later one) is durable; `Failed` when that takes too long."""
        limit = time.monotonic() + patience_s
        while (self.durable if self.durable is not None else -1) < step:
            if time.monotonic() > limit or self._writer.poll() is not None:
                raise Failed(f"the checkpoint of step {step} is not durable", why=self.answers.problem or "")
            self.answers.listen(wait_s=0.05)

    def stop_on_sigterm(self) -> None:
        """From now on SIGTERM sets `stopping`: the loop saves after its step, calls `wait` and ends."""

        def asked(_number: int, _frame: FrameType | None) -> None:
            self.stopping = True

        signal.signal(signal.SIGTERM, asked)

    def close(self, *, forget: bool = True) -> None:
        """Lets the writer finish; `forget` gives the memory back, else the next attempt finds it."""
        if self._writer.stdin is not None:
            self._writer.stdin.close()
        self._writer.wait()
        self.answers.listen(on_durable=progress.checkpoint if self.rank == 0 else None)
        self.answers.close()
        if forget:
            self.places.forget(self.segment)
        else:
            self.segment.close()

    def _replan(self, step: int) -> None:
        now = time.monotonic()
        if self.every is None and self._last_save is not None:
            before, then = self._last_save
            mine = (self.stall, (now - then - self.stall) / max(1, step - before), self.answers.write_s)
            stall, step_time, write = (max(values) for values in zip(*self._gather(mine), strict=True))
            self.plan = plan_interval(
                stall=stall,
                step_time=max(step_time, 1e-6),
                accelerators=self.world_size,
                rate=self._failures,
                least_write=write,
            )
        self._last_save = (step, now)

    def _same_for_all(self, mine: tuple[str, str]) -> tuple[str, str]:
        run, token = self._gather(mine)[0]
        return str(run), str(token)

    def _tell(self, value: dict[str, Any]) -> None:
        if self._writer.stdin is None or self._writer.poll() is not None:
            raise Failed("the process that writes checkpoints has ended", why=self.answers.problem or "")
        self._writer.stdin.write(json.dumps(value).encode() + b"\n")
        self._writer.stdin.flush()


_FIRST_PLAN = IntervalPlan(0.0, 10, 0.0, 0.0, ("nothing is measured yet",))


def _run_of(folder: Path, rank: int) -> tuple[str, str]:
    """The run's name for its memory, which dies with the folder, and a token for this attempt."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "run.json"
    if rank == 0 and not path.exists():
        from l2_aistation._kit.files import atomic_write

        atomic_write(path, json.dumps({"run": secrets.token_hex(8)}))
    try:
        run = str(json.loads(path.read_bytes())["run"]) if rank == 0 else ""
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            "is damaged", field=str(path), do="remove it: memory of this run is not found then"
        ) from error
    return run, secrets.token_hex(16)


def _gather_of(world_size: int) -> Gather:
    """Through torch.distributed; alone there is nobody to ask."""
    if world_size == 1:
        return lambda value: [value]

    def gather(value: Any) -> list[Any]:
        import torch.distributed as dist

        if not dist.is_initialized():
            raise BadInput(
                "torch.distributed is not initialised",
                field="gather",
                do="call init_process_group first, or give a function of your own",
            )
        values: list[Any] = [None] * world_size
        dist.all_gather_object(values, value)
        return values

    return gather


def _start(orders: Orders) -> tuple[subprocess.Popen[bytes], Answers]:
    """The writer, a session of its own: what ends the trainer's group does not end it in the middle."""
    command = [sys.executable, "-m", "l2_aistation.checkpoint.writer"]
    environment = {name: value for name, value in os.environ.items() if name != "OGAI_PROGRESS"}
    writer = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(json.dumps(asdict(orders)).encode() + b"\n")
    writer.stdin.flush()
    return writer, Answers(writer.stdout)
