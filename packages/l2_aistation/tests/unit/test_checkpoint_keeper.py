"""One rank: what is saved is found again, from memory, then from storage; going back forgets the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from l2_aistation._kit.problems import BadInput, Failed
from l2_aistation.checkpoint import Checkpointer
from l2_aistation.checkpoint.storage import file_of, name_of


def keeper(tmp_path: Path, attempt: int = 0, **options: Any) -> Checkpointer:
    values = {"rank": 0, "world_size": 1, "every": 1, "memory": tmp_path / "memory", **options}
    return Checkpointer(tmp_path / "run", attempt=attempt, **values)


def state(step: int) -> dict[str, Any]:
    return {"weights": np.full(50, float(step)), "step": step}


def saved(tmp_path: Path, *steps: int, forget: bool) -> None:
    one = keeper(tmp_path)
    for step in steps:
        one.save(step, state(step))
        one.wait(step, 30)
    one.close(forget=forget)


def test_memory_comes_first_and_storage_when_it_is_gone(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, forget=False)
    with keeper(tmp_path, 1) as again:
        found = again.restore()
        assert found is not None
        assert (found.step, found.source) == (2, "memory")
    with keeper(tmp_path, 2) as later:
        found = later.restore()
        assert found is not None
        assert (found.step, found.source) == (2, "storage")
        assert found.state["weights"].tolist() == [2.0] * 50


def test_the_writer_finishes_what_a_dying_trainer_left_in_memory(tmp_path: Path) -> None:
    def dies() -> None:
        with keeper(tmp_path) as one:
            one.save(7, state(7))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dies()
    assert (tmp_path / "run" / name_of(7)).is_dir()


def test_a_damaged_step_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, forget=True)
    part = tmp_path / "run" / name_of(2) / file_of(0)
    part.write_bytes(part.read_bytes()[:-3])
    with keeper(tmp_path, 1) as again:
        found = again.restore()
        assert found is not None
        assert found.step == 1


def test_when_all_are_damaged_a_person_decides(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2, forget=True)
    for step in (1, 2):
        (tmp_path / "run" / name_of(step) / file_of(0)).write_bytes(b"")
    with keeper(tmp_path, 1) as again, pytest.raises(Failed, match="none of the steps 2, 1 can be read"):
        again.restore()


def test_going_back_forgets_what_came_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, 1, 2, forget=False)
    monkeypatch.setenv("OGAI_ROLLBACK_STEP", "1")
    with keeper(tmp_path, 1) as again:
        found = again.restore()
        assert found is not None
        assert found.step == 1
    monkeypatch.delenv("OGAI_ROLLBACK_STEP")
    with keeper(tmp_path, 2) as later:
        found = later.restore()
        assert found is not None
        assert found.step == 1
    with keeper(tmp_path, 3) as first:
        assert first.restore(at_most=0) is None
        assert first.storage.steps() == []


def test_an_old_run_s_memory_is_not_found_in_a_new_folder(tmp_path: Path) -> None:
    """The folder was removed and the run begun anew: what memory still holds is another run's."""
    saved(tmp_path, 5, forget=False)
    for path in sorted((tmp_path / "run").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with keeper(tmp_path, 0) as anew:
        assert anew.restore() is None


def test_the_interval_is_planned_from_what_is_measured(tmp_path: Path) -> None:
    with keeper(tmp_path, every=None) as one:
        assert one.due(9)
        assert not one.due(8)
        one.save(9, state(9))
        one.save(19, state(19))
        assert one.plan is not None
        assert one.plan.steps >= 1
        assert any("Daly" in reason for reason in one.plan.reasons)


def test_the_memory_is_given_back_at_the_end(tmp_path: Path) -> None:
    saved(tmp_path, 1, forget=True)
    assert list((tmp_path / "memory").iterdir()) == []


def test_nonsense_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="at least 1"):
        keeper(tmp_path, every=0)
    with pytest.raises(BadInput, match="at least 1"):
        keeper(tmp_path, keep=0)
