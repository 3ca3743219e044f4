"""Memory that outlives the trainer: two slots of shared memory per rank, one always whole.

A slot is a file in a memory file system: a page that says what is in it, then the bytes of `layout`.  It says
"writing" before the first byte changes and "whole" after the last one: a rank killed in the middle of a
save leaves the other slot.  A reader (the writer process, a peer) holds a shared lock on the slot it reads;
a save never takes a slot that is held.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .layout import Layout, write

PAGE = 4096
SLOTS = 2
_MAGIC = b"OGAICKP1"


@dataclass(frozen=True, slots=True)
class Content:
    """What a slot says of itself; `world` is the number of ranks that saved the step."""

    step: int
    attempt: int
    world: int
    size: int
    slot: int


class Segment:
    """The slots of one rank of one run in a folder in memory; they stay until `remove`."""

    def __init__(self, folder: Path, run: str, rank: int, kind: str = "own") -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.paths = [folder / f"{run}-{rank}-{kind}-{slot}.ckpt" for slot in range(SLOTS)]
        self._maps: dict[int, mmap.mmap] = {}
        self._files: dict[int, int] = {}

    def contents(self) -> list[Content]:
        """The whole slots, the newest first."""
        found = [content for slot in range(SLOTS) if (content := self._content(slot))]
        return sorted(found, key=lambda content: content.step, reverse=True)

    def save(self, layout: Layout, step: int, attempt: int, world: int) -> None:
        """Copies a state into the slot that is older and not being read; buffers are used again."""
        with self._writable(layout.size, step) as (slot, area):
            with memoryview(area) as view, view[PAGE : PAGE + layout.size] as part:
                write(layout, part)
            _say_whole(area, Content(step, attempt, world, layout.size, slot))

    def store(self, raw: memoryview, content: Content) -> None:
        """Keeps bytes that another rank's slot holds: a replica."""
        with self._writable(len(raw), content.step) as (_slot, area):
            area[PAGE : PAGE + len(raw)] = raw
            _say_whole(area, content)

    def drop_after(self, step: int) -> None:
        """Forgets what was saved after a step: the run has gone back to it."""
        for content in self.contents():
            if content.step > step:
                with self._locked(content.slot):
                    _say(self._area(content.slot, PAGE), {"state": "dropped"})

    @contextlib.contextmanager
    def reading(self, slot: int) -> Iterator[tuple[Content, memoryview]]:
        """The bytes of a whole slot, held until the end.  LookupError where it is not whole any more."""
        descriptor = os.open(self.paths[slot], os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            content = self._content(slot)
            if content is None:
                raise LookupError(slot)
            with mmap.mmap(descriptor, PAGE + content.size, prot=mmap.PROT_READ) as area:
                view = memoryview(area)
                part = view[PAGE : PAGE + content.size]
                try:
                    yield content, part
                finally:
                    part.release()
                    view.release()
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Gives the memory back."""
        self.close()
        for path in self.paths:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Lets go of the mappings; the memory stays."""
        for area in self._maps.values():
            area.close()
        for descriptor in self._files.values():
            os.close(descriptor)
        self._maps.clear()
        self._files.clear()

    @contextlib.contextmanager
    def _writable(self, size: int, step: int) -> Iterator[tuple[int, mmap.mmap]]:
        slot = self._take(step)
        try:
            area = self._area(slot, PAGE + size)
            _say(area, {"state": "writing"})
            yield slot, area
        finally:
            fcntl.flock(self._file(slot), fcntl.LOCK_UN)

    @contextlib.contextmanager
    def _locked(self, slot: int) -> Iterator[None]:
        fcntl.flock(self._file(slot), fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file(slot), fcntl.LOCK_UN)

    def _take(self, step: int) -> int:
        """Locks a slot: an empty one, else the oldest, unless it is being read.

        A step that is saved again (after going back) takes its own slot's place first.
        """
        known = {content.slot: content for content in self.contents()}
        newer = {slot for slot, content in known.items() if content.step >= step}
        order = sorted(range(SLOTS), key=lambda slot: (slot not in newer, slot in known, _step(known, slot)))
        for slot in order:
            descriptor = self._file(slot)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return slot
        fcntl.flock(self._file(order[0]), fcntl.LOCK_EX)  # both are read: wait for the first
        return order[0]

    def _content(self, slot: int) -> Content | None:
        try:
            with open(self.paths[slot], "rb") as stream:
                page = stream.read(PAGE)
                held = os.fstat(stream.fileno()).st_size
        except OSError:
            return None
        told = _told(page)
        numbers = [told.get(name) for name in ("step", "attempt", "world", "size")]
        step, attempt, world, size = (number if isinstance(number, int) else -1 for number in numbers)
        if told.get("state") != "whole" or min(step, attempt, world, size) < 0 or held < PAGE + size:
            return None
        return Content(step, attempt, world, size, slot)

    def _file(self, slot: int) -> int:
        if slot not in self._files:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._files[slot] = os.open(self.paths[slot], flags, 0o600)
        return self._files[slot]

    def _area(self, slot: int, size: int) -> mmap.mmap:
        area = self._maps.get(slot)
        if area is not None and len(area) >= size:
            return area
        if area is not None:
            area.close()
        descriptor = self._file(slot)
        size = max(size, os.fstat(descriptor).st_size)
        os.posix_fallocate(descriptor, 0, size)  # a full memory is an error here, not a signal later
        self._maps[slot] = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        return self._maps[slot]


def _step(known: dict[int, Content], slot: int) -> int:
    return known[slot].step if slot in known else -1


def _say_whole(area: mmap.mmap, content: Content) -> None:
    told = {"step": content.step, "attempt": content.attempt, "world": content.world, "size": content.size}
    _say(area, {"state": "whole", **told})


def _say(area: mmap.mmap, told: dict[str, Any]) -> None:
    text = json.dumps(told).encode()
    area[:PAGE] = (_MAGIC + len(text).to_bytes(4, "little") + text).ljust(PAGE, b"\0")


def _told(page: bytes) -> dict[str, Any]:
    if not page.startswith(_MAGIC):
        return {}
    length = int.from_bytes(page[8:12], "little")
    try:
        told: dict[str, Any] = json.loads(page[12 : 12 + length])
    except ValueError:
        return {}
    return told
