"""An order of samples that depends on nothing but a seed, the epoch and how many were used.

What a run has used is one number for all ranks together.  After a restart, also with another number of
ranks, it goes on at that number: no sample is lost, none is repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from l2_aistation._kit.problems import BadInput


class ResumableSampler:
    """Gives each rank its share of each global batch, epoch after epoch.

    `samples`: how many there are; `batch`: the global batch, the same whatever the number of ranks.  The
    last samples of an epoch and the first of the next may share a batch, so every sample is used once an
    epoch.
    """

    def __init__(
        self, samples: int, batch: int, *, rank: int = 0, world_size: int = 1, seed: int = 0
    ) -> None:
        if samples < 1 or batch < 1:
            raise BadInput("must be at least 1", field="samples" if samples < 1 else "batch", do="give data")
        if batch % world_size:
            raise BadInput(
                f"{batch} does not divide by {world_size} ranks",
                field="batch",
                do="choose a batch that every number of ranks between min and max divides",
            )
        self.samples, self.batch, self.rank, self.world_size, self.seed = (
            samples,
            batch,
            rank,
            world_size,
            seed,
        )
        self.used = 0
        self._epoch = -1
        self._order: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's indices of one global batch after the other, without end."""
        while True:
            yield self.next()

    def next(self) -> list[int]:
        """This rank's indices of the next global batch, which counts as used by all ranks."""
        share = self.batch // self.world_size
        first = self.used + self.rank * share
        indices = [self._sample(number) for number in range(first, first + share)]
        self.used += self.batch
        return indices

    def state_dict(self) -> dict[str, int]:
        """What a checkpoint keeps."""
        return {"used": self.used, "seed": self.seed, "samples": self.samples}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where a checkpoint was.  `BadInput` for one of other data or another order."""
        for name in ("seed", "samples"):
            if int(state[name]) != getattr(self, name):
                raise BadInput(
                    f"is {getattr(self, name)}, the checkpoint was made with {state[name]}",
                    field=name,
                    do="go on with the same data and seed, or start in another folder",
                )
        self.used = int(state["used"])

    def skip_spoilt(self) -> int:
        """Passes over the data that spoilt the loss, where the platform asks for it; how many batches.

        Call it after `load_state_dict`.
        """
        batches = int(os.environ.get("OGAI_SKIP_STEPS", "0"))
        self.used += batches * self.batch
        return batches

    def _sample(self, number: int) -> int:
        epoch, place = divmod(number, self.samples)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self.seed, epoch]).permutation(self.samples)
        return int(self._order[place])
