"""A folder of checkpoints, one sub-folder each, that a kill at any point leaves in order.

    step-00000040/           whole: its checkpoint.json lists every file with size and SHA-256
    .step-00000060.partial/  being written; never read, swept by the next attempt
    latest                   the name of the newest whole one, moved last

Steps of writing: files, fsync, checkpoint.json, fsync, rename, fsync of the folder, `latest`,
and only then are old ones removed.  Reading goes from the newest to older ones until one is sound.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, Failed

INDEX = "checkpoint.json"
LATEST = "latest"


@dataclass(frozen=True)
class Checkpoint:
    """A sound checkpoint: its folder, the step after which it was taken, and what was noted with it."""

    folder: Path
    step: int
    notes: dict[str, Any]


@dataclass
class CheckpointStore:
    """The checkpoints of one run; `warnings` tells what was found damaged on the way."""

    folder: Path
    keep: int = 2
    warnings: list[str] = field(default_factory=list)

    def begin(self, step: int) -> Path:
        """An empty folder for the files of `step`; what a killed attempt left there is removed."""
        for leftover in self.folder.glob(".step-*.partial"):
            shutil.rmtree(leftover)
        partial = self.partial(step)
        partial.mkdir(parents=True)
        return partial

    def commit(self, step: int, files: dict[str, dict[str, Any]], notes: dict[str, Any]) -> Checkpoint:
        """Makes the files written since `begin` the newest checkpoint.

        `files` are the rows of `seal`, from every rank that wrote.
        """
        partial, final = self.partial(step), self.folder / name_of(step)
        index = {"step": step, "files": files, "notes": notes}
        atomic_write(partial / INDEX, json.dumps(index, indent=1, sort_keys=True))
        if final.exists():  # a damaged one of this step, or one that a later fall-back passed over
            shutil.rmtree(final)
        partial.rename(final)
        sync_folder(self.folder)
        atomic_write(self.folder / LATEST, final.name + "\n")
        self._remove_old(step)
        return Checkpoint(final, step, notes)

    def abandon(self, step: int) -> None:
        """Removes what was written since `begin`: on a full disk it is what is in the way."""
        shutil.rmtree(self.partial(step), ignore_errors=True)

    def newest(self, identity: dict[str, Any]) -> Checkpoint | None:
        """The newest sound checkpoint; None when there was never one.

        `identity` must equal what was noted at `commit`: another plan or data set is a `BadInput`.

        A damaged one is passed over with a warning.  When all are damaged that is for a person
        to decide: starting over silently would throw the run away.
        """
        names = self._names()
        for name in names:
            try:
                return same_run(self._checked(self.folder / name), identity)
            except Failed as problem:
                self.warnings.append(f"checkpoint {name} is damaged ({problem.what}), trying the one before")
        if names:
            raise BadInput(
                f"every checkpoint in {self.folder.name} is damaged",
                why="; ".join(self.warnings),
                field="checkpoint",
                do="bring one back from a backup, or remove the folder to start from step 0",
            )
        return None

    def _names(self) -> list[str]:
        """Whole checkpoints, the one named by `latest` first, then from new to old."""
        names = sorted((path.name for path in self.folder.glob("step-*")), reverse=True)
        try:
            latest = (self.folder / LATEST).read_text("utf-8").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            return names
        older = [name for name in names if name <= latest]
        return older or names

    def _checked(self, folder: Path) -> Checkpoint:
        try:
            index = json.loads((folder / INDEX).read_bytes())
            files, step, notes = index["files"], int(index["step"]), index["notes"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Failed(f"{INDEX}: {error}") from error
        for name, row in files.items():
            path = folder / name
            if not path.is_file() or path.stat().st_size != row["bytes"]:
                raise Failed(f"{name} is not {row['bytes']} bytes long")
            if digest_of_file(path) != row["sha256"]:
                raise Failed(f"{name} has another SHA-256 than when it was written")
        return Checkpoint(folder, step, notes)

    def partial(self, step: int) -> Path:
        """Where the files of `step` are written until `commit`."""
        return self.folder / f".{name_of(step)}.partial"

    def _remove_old(self, newest: int) -> None:
        whole = sorted(self.folder.glob("step-*"))
        past = [path for path in whole if path.name <= name_of(newest)]
        for path in [*past[: -self.keep], *(path for path in whole if path not in past)]:
            shutil.rmtree(path)


def same_run(checkpoint: Checkpoint, identity: dict[str, Any]) -> Checkpoint:
    """`checkpoint`, unless it was written by a run with other inputs."""
    other = sorted(name for name in identity if checkpoint.notes.get(name) != identity[name])
    if other:
        raise BadInput(
            f"holds a run with another {' and '.join(other)}",
            field=str(checkpoint.folder.parent.name),
            do="choose another output folder, or go on with the same inputs",
        )
    return checkpoint


def name_of(step: int) -> str:
    """The folder of a step, so that names sort as steps do."""
    return f"step-{step:08d}"


def seal(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Flushes files to disk and returns a row {bytes, sha256} for each."""
    rows = {}
    for name in names:
        path = folder / name
        with open(path, "rb") as stream:
            os.fsync(stream.fileno())
        rows[name] = {"bytes": path.stat().st_size, "sha256": digest_of_file(path)}
    return rows


def sync_folder(folder: Path) -> None:
    """Makes a rename inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_about_writing(error: Exception) -> bool:
    """Whether a file could not be written, as opposed to a peer that was lost: torch.save hides the errno."""
    torch_words = ("PytorchStreamWriter", "inline_container", "iostream")
    return isinstance(error, OSError) or any(word in str(error) for word in torch_words)


def save_failed(error: Exception, folder: Path, step: int) -> Failed:
    """What to tell when writing a checkpoint fails; the one before is untouched."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    full = full or (folder.exists() and shutil.disk_usage(folder).free < 1 << 20)
    return Failed(
        f"checkpoint of step {step} could not be written" + (": no space left on device" if full else ""),
        why=str(error).splitlines()[0] if str(error) else type(error).__name__,
        do="make room and start the same command again: it goes on from the checkpoint before",
    )
