"""Checkpoints on shared storage, written by many ranks, committed whole.

    step-00000040/             whole: checkpoint.json lists every rank's file with size and SHA-256
    .step-00000040.3/          being written by attempt 3; nobody reads it, and another attempt sweeps it
    latest                     the newest whole one, moved after its data are durable

Reading goes from the newest to older ones until one is sound.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l2_aistation._kit.files import atomic_write
from l2_aistation._kit.problems import BadInput, Failed

INDEX = "checkpoint.json"
LATEST = "latest"
_CHUNK = 8 << 20
_FLUSH = 64 << 20
_PARTIAL = re.compile(r"^\.step-(\d{8})\.(\d+)$")


@dataclass(frozen=True, slots=True)
class Stored:
    """A whole checkpoint: its step, the attempt and the number of ranks that wrote it."""

    step: int
    attempt: int
    world_size: int


class Storage:
    """The checkpoints of one run in a folder that all ranks see."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        if keep < 1:
            raise BadInput("must be at least 1", field="keep", do="keep 2: the newest and the one before")
        self.folder, self.keep = folder, keep

    def write_rank(
        self,
        step: int,
        attempt: int,
        rank: int,
        raw: memoryview,
        pace: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        """Makes one rank's bytes durable and says so; `pace` is told after each piece and may wait."""
        partial = self._partial(step, attempt)
        partial.mkdir(parents=True, exist_ok=True)
        path = partial / file_of(rank)
        digest = hashlib.sha256()
        with open(path, "wb") as stream:
            for begin in range(0, len(raw), _CHUNK):
                piece = raw[begin : begin + _CHUNK]
                stream.write(piece)
                digest.update(piece)
                pace(len(piece))
                if (begin // _CHUNK) % (_FLUSH // _CHUNK) == 0:
                    _flush(stream.fileno())
            stream.flush()
            os.fsync(stream.fileno())
            with contextlib.suppress(OSError):  # what was written once is not read again soon
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        told = {"bytes": len(raw), "sha256": digest.hexdigest(), "rank": rank, "attempt": attempt}
        atomic_write(partial / f"{file_of(rank)}.json", json.dumps(told))

    def commit(self, step: int, attempt: int, world_size: int) -> bool:
        """Makes a step the newest, if every rank of this attempt has written its part; else False."""
        partial = self._partial(step, attempt)
        files = {}
        for rank in range(world_size):
            try:
                files[file_of(rank)] = json.loads((partial / f"{file_of(rank)}.json").read_bytes())
            except (OSError, ValueError):
                return False
        index = {"step": step, "attempt": attempt, "world_size": world_size, "files": files}
        atomic_write(partial / INDEX, json.dumps(index, indent=1, sort_keys=True))
        _sync_folder(partial)
        final = self.folder / name_of(step)
        if final.exists():  # of an attempt that went further before it was lost
            self._put_aside(step)
        partial.rename(final)
        _sync_folder(self.folder)
        atomic_write(self.folder / LATEST, final.name + "\n")
        self._remove_old(final.name)
        return True

    def sweep(self, attempt: int) -> None:
        """Takes away what attempts before this one left half-written."""
        for path in self.folder.glob(".step-*"):
            found = _PARTIAL.match(path.name)
            if found and int(found[2]) < attempt:
                shutil.rmtree(path, ignore_errors=True)
        self._clear_aside()

    def steps(self) -> list[int]:
        """The steps of whole checkpoints, the newest first; `latest` counts where it is there."""
        names = sorted((path.name for path in self.folder.glob("step-*")), reverse=True)
        return [int(name.removeprefix("step-")) for name in names if name.removeprefix("step-").isdigit()]

    def find(self, step: int) -> Stored:
        """A whole checkpoint, its index checked.  Raises `Failed` where it is damaged."""
        index = self._index(self.folder / name_of(step))
        return Stored(step, int(index["attempt"]), int(index["world_size"]))

    def drop_after(self, step: int) -> None:
        """Takes away what was saved after a step: the run has gone back to it."""
        for newer in self.steps():
            if newer > step:
                self._put_aside(newer)
        self._clear_aside()

    def read_rank(self, step: int, rank: int) -> bytes:
        """One rank's bytes, checked by size and SHA-256.  Raises `Failed` where they are damaged."""
        folder = self.folder / name_of(step)
        told = self._index(folder)["files"].get(file_of(rank))
        if told is None:
            raise Failed(f"{folder.name} has no part of rank {rank}")
        try:
            raw = (folder / file_of(rank)).read_bytes()
        except OSError as error:
            raise Failed(f"{folder.name}/{file_of(rank)} cannot be read", why=error.strerror or "") from error
        if len(raw) != told["bytes"] or hashlib.sha256(raw).hexdigest() != told["sha256"]:
            raise Failed(f"{folder.name}/{file_of(rank)} is not what was written")
        return raw

    def _index(self, folder: Path) -> dict[str, Any]:
        try:
            index: dict[str, Any] = json.loads((folder / INDEX).read_bytes())
            whole = isinstance(index["attempt"], int) and isinstance(index["world_size"], int)
            if not isinstance(index["files"], dict) or not whole:
                raise TypeError(INDEX)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Failed(f"{folder.name} has no sound {INDEX}", why=str(error)) from error
        return index

    def _partial(self, step: int, attempt: int) -> Path:
        return self.folder / f".{name_of(step)}.{attempt}"

    def _remove_old(self, newest: str) -> None:
        whole = sorted(path.name for path in self.folder.glob("step-*"))
        older = [name for name in whole if name <= newest]
        for name in [*older[: -self.keep], *(name for name in whole if name > newest)]:
            self._put_aside(int(name.removeprefix("step-")))
        self._clear_aside()

    def _put_aside(self, step: int) -> None:
        """Renamed first: what is being removed is never read as whole."""
        folder = self.folder / name_of(step)
        folder.rename(self.folder / f".old-{folder.name}-{time.time_ns()}")

    def _clear_aside(self) -> None:
        for path in self.folder.glob(".old-*"):
            shutil.rmtree(path, ignore_errors=True)


def name_of(step: int) -> str:
    """The folder of a step, so that names sort as steps do."""
    return f"step-{step:08d}"


def file_of(rank: int) -> str:
    """A rank's file."""
    return f"rank-{rank:05d}.safetensors"


def _flush(descriptor: int) -> None:
    """Keeps dirty pages few: a long flush at the end would stall every writer of the machine."""
    os.fdatasync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
