"""Where the parts of a step are: in this rank's memory, as a replica on some node, on the storage.

All ranks tell what they see, so all choose the same step without another word.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l2_aistation._kit.problems import Failed

from .layout import read
from .replica import fetch, partner
from .segment import Segment
from .storage import Storage
from .writer import Orders

State = tuple[Any, dict[str, Any]]
Key = tuple[int, int]
"""Step and attempt: two attempts may have come to the same step with other states."""

_NAME = re.compile(r"^(?P<run>\w+)-(?P<rank>\d+)-(?P<kind>own|replica)-\d\.ckpt$")


class Places:
    """What every rank of the run can see of its checkpoints."""

    def __init__(
        self,
        orders: Orders,
        port: int,
        domain: str | None,
        address: str | None,
        gather: Callable[[Any], list[Any]],
    ) -> None:
        self._orders, self._gather = orders, gather
        self._memory = Path(orders.memory)
        node = os.environ.get("OGAI_NODE") or socket.gethostname()
        mine = (domain or os.environ.get("OGAI_FAULT_DOMAIN") or node, address or _address(), port)
        told = gather(mine) if orders.world_size > 1 else [mine]
        self._domains = [str(one[0]) for one in told]
        self._addresses = [(str(one[1]), int(one[2])) for one in told]

    def peer(self) -> tuple[str, int] | None:
        """Who keeps this rank's replica."""
        other = partner(self._orders.rank, self._domains)
        return None if other is None else self._addresses[other]

    def find(
        self, storage: Storage, segment: Segment, *, replicated: bool, at_most: int | None = None
    ) -> tuple[int, State, str] | None:
        """The newest step that every rank can load, as (step, state, source).

        With `replicated` any rank's part will do.  `at_most`: nothing after this step is looked at.
        """
        told = self._gather(self._seen(storage, segment, replicated=replicated))
        stored = {(int(step), int(attempt)): int(world) for step, attempt, world in told[0]["stored"]}
        keys = {key for one in told for key in _keys_of(one)} | set(stored)
        wanted = sorted((key for key in keys if at_most is None or key[0] <= at_most), reverse=True)
        problem = ""
        for key in wanted:
            if not all(self._sources(rank, key, told, stored, replicated) for rank in range(len(told))):
                continue
            state, source, problem = self._load(key, told, storage, segment, stored, replicated)
            if all(self._gather(state is not None)):
                assert state is not None
                return key[0], state, source
        if wanted:
            raise Failed(
                f"none of the steps {', '.join(str(step) for step, _ in wanted)} can be read by every rank",
                why=problem,
                do="bring a checkpoint back from a backup, or start in an empty folder",
            )
        return None

    def drop_after(self, storage: Storage, segment: Segment, step: int) -> None:
        """Forgets everything saved after a step, in memory here and on the storage."""
        segment.drop_after(step)
        for rank in self._ranks_held("replica"):
            replica = Segment(self._memory, self._orders.run, rank, "replica")
            replica.drop_after(step)
            replica.close()
        if self._orders.rank == 0:
            storage.drop_after(step)
        self._gather(None)  # nobody goes on while a newer step can still be found

    def forget(self, segment: Segment) -> None:
        """Gives back this run's memory on this node: this rank's, and the replicas of ranks elsewhere."""
        segment.remove()
        for rank in self._ranks_held("replica"):
            Segment(self._memory, self._orders.run, rank, "replica").remove()

    def _ranks_held(self, kind: str) -> set[int]:
        names = os.listdir(self._memory) if self._memory.is_dir() else []
        found = [match for name in names if (match := _NAME.match(name))]
        mine = [match for match in found if match["run"] == self._orders.run and match["kind"] == kind]
        return {int(match["rank"]) for match in mine}

    def _seen(self, storage: Storage, segment: Segment, *, replicated: bool) -> dict[str, Any]:
        world = None if replicated else self._orders.world_size
        held: dict[str, list[Key]] = {}
        for kind in ("replica", "own"):
            for rank in self._ranks_held(kind):
                keys = _keys_in(Segment(self._memory, self._orders.run, rank, kind), world)
                held.setdefault(str(rank), []).extend(keys)
        stored = []
        for step in storage.steps():
            with contextlib.suppress(Failed):
                found = storage.find(step)
                stored.append((step, found.attempt, found.world_size))
        return {"own": _keys_in(segment, world), "held": held, "stored": stored}

    def _sources(
        self,
        rank: int,
        key: Key,
        told: list[dict[str, Any]],
        stored: dict[Key, int],
        replicated: bool,
    ) -> list[tuple[str, int, int]]:
        """Where a rank finds its part: (source, rank that holds it, rank whose part it is), nearest first."""
        found = [("memory", rank, rank)] if key in map(tuple, told[rank]["own"]) else []
        for part in [rank, *(range(len(told)) if replicated else ())]:
            holders = [
                other for other, one in enumerate(told) if key in map(tuple, one["held"].get(str(part), ()))
            ]
            if holders and ("memory", rank, part) not in found:
                found.append(("replica", holders[0], part))
                break
        if key in stored and (replicated or rank < stored[key]):
            found.append(("storage", rank, min(rank, stored[key] - 1)))
        return found

    def _load(
        self,
        key: Key,
        told: list[dict[str, Any]],
        storage: Storage,
        segment: Segment,
        stored: dict[Key, int],
        replicated: bool,
    ) -> tuple[State | None, str, str]:
        """This rank's part of a step, from the nearest place that has it whole."""
        orders, problem = self._orders, ""
        for source, holder, part in self._sources(orders.rank, key, told, stored, replicated):
            try:
                if source == "memory":
                    return _from_memory(segment, key), source, ""
                if source == "replica":
                    peer = self._addresses[holder]
                    raw = fetch(peer, orders.token, orders.run, part, key)
                    return read(memoryview(raw)), source, ""
                return read(memoryview(storage.read_rank(key[0], part))), source, ""
            except (Failed, OSError, LookupError) as error:
                problem = str(error)
        return None, "", problem


def _from_memory(segment: Segment, key: Key) -> State:
    slot = next(one.slot for one in segment.contents() if (one.step, one.attempt) == key)
    with segment.reading(slot) as (_content, raw):
        return read(raw)


def _keys_in(segment: Segment, world: int | None) -> list[Key]:
    """What is whole in memory, saved by this many ranks (None: by any number)."""
    return [(one.step, one.attempt) for one in segment.contents() if world in (None, one.world)]


def _keys_of(told: dict[str, Any]) -> set[Key]:
    return {tuple(key) for keys in (told["own"], *told["held"].values()) for key in keys}


def _address() -> str:
    """The address under which other nodes reach this one: the one that the job's rendezvous goes through."""
    host = os.environ.get("OGAI_ADDRESS")
    if host:
        return host
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((master, int(os.environ.get("MASTER_PORT", "1"))))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
