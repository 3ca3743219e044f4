"""Storage that a kill at any point leaves in order: whole or not there, `latest` never before the data."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation._kit.problems import BadInput, Failed
from l2_aistation.checkpoint.replica import partner
from l2_aistation.checkpoint.sampler import ResumableSampler
from l2_aistation.checkpoint.storage import LATEST, Storage, file_of, name_of


def saved(storage: Storage, step: int, *, attempt: int = 0, ranks: int = 2) -> bool:
    for rank in range(ranks):
        storage.write_rank(step, attempt, rank, memoryview(f"step {step} of rank {rank}".encode()))
    return storage.commit(step, attempt, ranks)


def test_a_step_is_there_when_all_ranks_have_written(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.write_rank(5, 0, 0, memoryview(b"one"))
    assert not storage.commit(5, 0, 2)
    assert storage.steps() == []
    assert not (tmp_path / LATEST).exists()
    storage.write_rank(5, 0, 1, memoryview(b"two"))
    assert storage.commit(5, 0, 2)
    assert storage.steps() == [5]
    assert (tmp_path / LATEST).read_text() == "step-00000005\n"
    assert storage.read_rank(5, 1) == b"two"


def test_parts_of_two_attempts_never_make_one_checkpoint(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.write_rank(5, 0, 0, memoryview(b"old"))
    storage.write_rank(5, 1, 1, memoryview(b"new"))
    assert not storage.commit(5, 0, 2)
    assert not storage.commit(5, 1, 2)
    storage.sweep(1)
    assert not (tmp_path / f".{name_of(5)}.0").exists()
    assert (tmp_path / f".{name_of(5)}.1").exists()


def test_the_one_before_is_kept(tmp_path: Path) -> None:
    storage = Storage(tmp_path, keep=2)
    for step in (10, 20, 30):
        assert saved(storage, step)
    assert storage.steps() == [30, 20]


@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_part_is_told(tmp_path: Path, damage: str) -> None:
    storage = Storage(tmp_path)
    saved(storage, 10)
    part = tmp_path / name_of(10) / file_of(1)
    raw = part.read_bytes()
    if damage == "gone":
        part.unlink()
    else:
        part.write_bytes(raw[:-1] if damage == "cut" else bytes([raw[0] ^ 1]) + raw[1:])
    with pytest.raises(Failed, match="rank-00001"):
        storage.read_rank(10, 1)
    assert storage.read_rank(10, 0) == b"step 10 of rank 0"


def test_going_back_forgets_what_came_later(tmp_path: Path) -> None:
    storage = Storage(tmp_path, keep=5)
    for step in (10, 20, 30):
        saved(storage, step)
    storage.drop_after(10)
    assert storage.steps() == [10]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".old")] == []


def test_a_step_that_is_saved_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    storage = Storage(tmp_path, keep=2)
    saved(storage, 10)
    saved(storage, 20)
    storage.write_rank(20, 1, 0, memoryview(b"again"))
    assert storage.commit(20, 1, 1)
    assert storage.find(20).attempt == 1
    assert storage.read_rank(20, 0) == b"again"


@given(st.lists(st.integers(0, 6), min_size=1, max_size=24))
def test_a_replica_lies_in_another_fault_domain(domains: list[int]) -> None:
    names = [str(domain) for domain in domains]
    for rank in range(len(names)):
        other = partner(rank, names)
        assert (other is None) == (len(set(names)) == 1)
        assert other is None or names[other] != names[rank]


def test_replicas_are_spread(tmp_path: Path) -> None:
    """Two nodes of four ranks, and a third: each rank keeps exactly one."""
    domains = [node for node in ("a", "b", "c") for _ in range(4)]
    assert sorted(partner(rank, domains) or 0 for rank in range(12)) == list(range(12))


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.integers(0, 6)), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_no_sample_is_lost_or_repeated_whatever_the_ranks(
    samples: int, attempts: list[tuple[int, int]], seed: int
) -> None:
    """Attempts with other numbers of ranks use, joined, what one undisturbed rank would have used."""
    used: list[int] = []
    state = None
    for ranks, batches in attempts:
        samplers = [
            ResumableSampler(samples, 4, rank=rank, world_size=ranks, seed=seed) for rank in range(ranks)
        ]
        for sampler in samplers:
            if state is not None:
                sampler.load_state_dict(state)
        for _ in range(batches):
            used += [index for sampler in samplers for index in sampler.next()]
        state = samplers[0].state_dict()
    alone = ResumableSampler(samples, 4, seed=seed)
    assert used == [index for _ in range(len(used) // 4) for index in alone.next()]
    whole = len(used) // samples
    for epoch in range(whole):
        assert sorted(used[epoch * samples : (epoch + 1) * samples]) == list(range(samples))


def test_the_data_that_spoilt_the_loss_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = ResumableSampler(100, 4)
    for _ in range(3):
        sampler.next()
    state = sampler.state_dict()
    following = [sampler.next() for _ in range(4)]
    monkeypatch.setenv("OGAI_SKIP_STEPS", "2")
    again = ResumableSampler(100, 4)
    again.load_state_dict(state)
    assert again.skip_spoilt() == 2
    assert again.next() == following[2]


def test_other_data_is_refused() -> None:
    state = ResumableSampler(100, 4).state_dict()
    with pytest.raises(BadInput, match="was made with 100"):
        ResumableSampler(90, 4).load_state_dict(state)
    with pytest.raises(BadInput, match="does not divide"):
        ResumableSampler(90, 5, world_size=2)
