"""Checkpoints: whatever is killed or damaged, the newest sound one is found and nothing else is."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.trainkit.checkpoint import CheckpointStore
from l3_ylink.trainkit.checkpoint.store import is_about_writing, save_failed, seal

RUN = {"plan": "a", "data": "b"}


class Killed(BaseException):
    """Stands for kill -9: nothing in the code under test may catch it."""


def save(store: CheckpointStore, step: int) -> None:
    partial = store.begin(step)
    for name in ("weights.pt", "optimizer.pt"):
        (partial / name).write_bytes(f"{name} {step}".encode())
    store.commit(step, seal(partial, ["weights.pt", "optimizer.pt"]), RUN)


def whole(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step-*"))


def test_the_newest_is_found_and_old_ones_go(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    assert store.newest(RUN) is None
    for step in (10, 20, 30):
        save(store, step)
    found = store.newest(RUN)
    assert found is not None
    assert found.step == 30
    assert (found.folder / "weights.pt").read_bytes() == b"weights.pt 30"
    assert whole(tmp_path) == ["step-00000020", "step-00000030"]
    assert (tmp_path / "latest").read_text("utf-8").strip() == "step-00000030"


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "no index", "broken index"])
def test_a_damaged_newest_is_passed_over_with_a_warning(tmp_path: Path, damage: str) -> None:
    store = CheckpointStore(tmp_path)
    save(store, 10)
    save(store, 20)
    folder = tmp_path / "step-00000020"
    file, index = folder / "optimizer.pt", folder / "checkpoint.json"
    if damage == "flip":
        file.write_bytes(b"X" + file.read_bytes()[1:])
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "remove":
        file.unlink()
    elif damage == "no index":
        index.unlink()
    else:
        index.write_text('{"files": ', "utf-8")
    found = store.newest(RUN)
    assert found is not None
    assert found.step == 10
    assert len(store.warnings) == 1
    assert "step-00000020 is damaged" in store.warnings[0]
    save(store, 20)  # written again over the damaged one
    again = CheckpointStore(tmp_path).newest(RUN)
    assert again is not None
    assert again.step == 20


def test_all_damaged_is_for_a_person_to_decide(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    for step in (10, 20):
        save(store, step)
        (tmp_path / f"step-{step:08d}" / "weights.pt").write_bytes(b"")
    with pytest.raises(BadInput, match="every checkpoint") as refused:
        store.newest(RUN)
    assert "remove the folder" in refused.value.do


@pytest.mark.parametrize("name", RUN)
def test_a_run_with_other_inputs_is_refused(tmp_path: Path, name: str) -> None:
    store = CheckpointStore(tmp_path)
    save(store, 10)
    with pytest.raises(BadInput, match=f"another {name}"):
        store.newest({**RUN, name: "other"})


@settings(deadline=None)
@given(at=st.integers(0, 60), steps=st.integers(1, 4))
def test_a_kill_between_any_two_changes_leaves_the_newest_sound_one(
    tmp_path_factory: pytest.TempPathFactory, at: int, steps: int
) -> None:
    folder = tmp_path_factory.mktemp("kill")
    count, done, crashed = 0, 0, False

    def counted(real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            if count == at:
                raise Killed
            count += 1
            return real(*args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", counted(os.fsync))
        patch.setattr(os, "replace", counted(os.replace))
        patch.setattr(Path, "rename", counted(Path.rename))
        patch.setattr("shutil.rmtree", counted(shutil.rmtree))
        try:
            for step in range(1, steps + 1):
                save(CheckpointStore(folder, keep=1), step)
                done = step
        except Killed:
            crashed = True
    found = CheckpointStore(folder).newest(RUN)
    if found is None:
        assert done == 0
    else:
        assert found.step in ((done, done + 1) if crashed else (done,))
        assert (found.folder / "weights.pt").read_bytes() == f"weights.pt {found.step}".encode()
    save(CheckpointStore(folder), done + 2)  # and the next attempt can save
    newest = CheckpointStore(folder).newest(RUN)
    assert newest is not None
    assert newest.step == done + 2
    assert not list(folder.glob(".step-*"))


def test_a_full_disk_is_said_and_a_lost_peer_is_not_taken_for_one(tmp_path: Path) -> None:
    full = save_failed(OSError(errno.ENOSPC, "No space left on device"), tmp_path, 40)
    assert "no space left" in full.what
    assert "checkpoint before" in full.do
    assert is_about_writing(RuntimeError("[enforce fail at inline_container.cc] PytorchStreamWriter failed"))
    assert not is_about_writing(RuntimeError("Connection closed by peer"))
