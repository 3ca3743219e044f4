"""What a rank is told by whoever started it: its place in the job, and the shared folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from l3_ylink._kit.problems import BadInput


@dataclass(frozen=True)
class Rank:
    """A task's place, from torchrun-style variables; alone where they are absent."""

    rank: int
    world_size: int
    local_rank: int
    attempt: int

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Rank:
        """Reads RANK, WORLD_SIZE, LOCAL_RANK and OGAI_ATTEMPT."""
        return cls(
            rank=_number(environment, "RANK", 0),
            world_size=_number(environment, "WORLD_SIZE", 1),
            local_rank=_number(environment, "LOCAL_RANK", 0),
            attempt=_number(environment, "OGAI_ATTEMPT", 1),
        )


def in_shared(path: str | Path) -> Path:
    """`path`, taken from the job's shared folder (`OGAI_SHARED_DIR`) when it is relative."""
    return Path(os.environ.get("OGAI_SHARED_DIR", ".")) / path


def checkpoint_folder(out: Path) -> Path:
    """`OGAI_CHECKPOINT_DIR` where the platform gives one, else `checkpoints` beside the results."""
    given = os.environ.get("OGAI_CHECKPOINT_DIR")
    return in_shared(given) if given else out / "checkpoints"


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name, str(default))
    if not value.isdecimal():
        raise BadInput(
            f"is {value!r}, not a number", field=name, do="start the ranks with torchrun's variables"
        )
    return int(value)
