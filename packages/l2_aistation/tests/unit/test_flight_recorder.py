"""Which rank holds the others up: dumps in the form that PyTorch 2.9's ProcessGroupNCCL writes."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.diagnosis.flight import find_suspects, parse_dump
from l2_aistation.log_files import diagnose

WORLD = 8
GROUPS = {
    "0": range(8),
    "1": (0, 1, 2, 3),
    "2": (4, 5, 6, 7),
    "3": (0, 4),
    "4": (1, 5),
    "5": (2, 6),
    "6": (3, 7),
}


def call(group: str, sequence: int, *, done: bool = False, name: str = "all_reduce") -> dict[str, Any]:
    return {
        "pg_id": int(group),
        "process_group": [group, f"group {group}"],
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "profiling_name": f"nccl:{name}",
        "input_sizes": [[16]],
        "output_sizes": [[16]],
        "state": "completed" if done else "scheduled",
        "time_discovered_completed_ns": None,
        "is_p2p": False,
    }


def transfer(group: str, text: str) -> dict[str, Any]:
    return call(group, 0) | {"profiling_name": f"nccl:{text}", "is_p2p": True}


def dump(rank: int, *entries: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, dict[str, int]] = {}
    for entry in entries:
        if not entry["is_p2p"]:
            one = status.setdefault(
                str(entry["pg_id"]),
                {
                    "last_enqueued_collective": -1,
                    "last_started_collective": -1,
                    "last_completed_collective": entry["collective_seq_id"] - 1,
                },
            )
            one["last_enqueued_collective"] = entry["collective_seq_id"]
            if entry["state"] == "completed":
                one["last_completed_collective"] = entry["collective_seq_id"]
    config = {
        name: {"name": name, "desc": f"group {name}", "ranks": str(list(ranks))}
        for name, ranks in GROUPS.items()
        if rank in ranks
    }
    return {"version": "2.9", "pg_config": config, "pg_status": status, "entries": list(entries)}


def suspects(dumps: dict[int, dict[str, Any]]) -> list[tuple[int, str]]:
    return [(one.rank, one.kind) for one in find_suspects(parse_dump(r, d) for r, d in dumps.items())]


def test_the_rank_that_never_came_is_named() -> None:
    dumps = {rank: dump(rank, call("0", 6, done=True), call("0", 7)) for rank in range(WORLD) if rank != 5}
    assert suspects(dumps | {5: dump(5, call("0", 6, done=True))}) == [(5, "missing")]


def test_a_rank_without_a_dump_is_named() -> None:
    assert suspects({rank: dump(rank, call("0", 7)) for rank in range(WORLD) if rank != 2}) == [(2, "silent")]


def test_a_rank_that_waits_for_another_is_no_culprit() -> None:
    """0-3 wait in their group for 1; the others wait in the whole for 0-3, which is not their fault."""
    dumps = {rank: dump(rank, call("0", 9)) for rank in (4, 5, 6, 7)}
    dumps |= {rank: dump(rank, call("1", 40)) for rank in (0, 2, 3)}
    assert suspects(dumps | {1: dump(1)}) == [(1, "missing")]


def test_a_device_that_lags_behind_its_peers_is_named() -> None:
    dumps = {rank: dump(rank, call("1", 40, done=True), call("1", 41)) for rank in (0, 1, 3)}
    assert suspects(dumps | {2: dump(2, call("1", 39), call("1", 40), call("1", 41))}) == [(2, "stalled")]


def test_a_pipeline_neighbour_that_never_sends_is_named() -> None:
    dumps = {0: dump(0, transfer("3", "recv 0<-1")), 4: dump(4)}
    assert suspects(dumps) == [(4, "missing")]


def test_a_rank_that_calls_something_else_is_a_mismatch() -> None:
    dumps = {rank: dump(rank, call("1", 8)) for rank in (0, 1, 3)}
    assert suspects(dumps | {2: dump(2, call("1", 8, name="broadcast"))}) == [(2, "mismatch")]


def test_nothing_is_open_and_nobody_is_blamed() -> None:
    assert suspects({rank: dump(rank, call("0", 7, done=True)) for rank in range(WORLD)}) == []


@given(st.integers(0, WORLD - 1), st.integers(1, 30), st.sampled_from(["0", "1", "2"]))
def test_one_absent_rank_is_found_in_any_group(absent: int, sequence: int, group: str) -> None:
    members = GROUPS[group]
    dumps = {
        rank: dump(
            rank, call(group, sequence, done=True), *(() if rank == absent else (call(group, sequence + 1),))
        )
        for rank in members
    }
    assert suspects(dumps) == ([(absent, "missing")] if absent in members else [])


@pytest.mark.parametrize("form", ["json", "pickle"])
def test_files_of_dumps_and_logs_are_read_together(tmp_path: Path, form: str) -> None:
    files = []
    for rank in range(WORLD):
        entries = [call("0", 6, done=True)] + ([] if rank == 3 else [call("0", 7)])
        path = tmp_path / (f"nccl_trace_rank_{rank}" + (".json" if form == "json" else ""))
        value = dump(rank, *entries)
        path.write_bytes(json.dumps(value).encode() if form == "json" else pickle.dumps(value))
        files.append(path)
    log = tmp_path / "rank0.log"
    log.write_text(
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)\n"
    )
    found = diagnose([*files, log])
    assert (found.cause.label, found.cause.rank) == ("nccl_timeout", 3)
    assert "never came to collective 7" in found.cause.evidence[0]


@pytest.mark.parametrize(("name", "ranks"), [("gpu_error", [12, 14]), ("lock_gil", [9, 14])])
def test_the_injected_ranks_of_real_runs_are_named(name: str, ranks: list[int]) -> None:
    path = Path(__file__).parents[1] / "data" / "flight_recorder" / f"{name}.json.gz"
    dumps = json.loads(gzip.decompress(path.read_bytes()))
    found = find_suspects(parse_dump(int(rank), value) for rank, value in dumps.items())
    assert [one.rank for one in found] == ranks


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("evil-was-here",))


def test_a_pickle_that_would_run_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps({"nccl_version": "2", "entries": [Evil()]}))
    with pytest.raises(BadInput, match="no sound Flight Recorder dump"):
        diagnose([path])
    assert not (tmp_path / "evil-was-here").exists()


@pytest.mark.parametrize(
    "text", ["{", '{"version": 1}', '{"entries": [{}], "pg_config": {}}', '{"pg_config": 3}']
)
def test_a_damaged_dump_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rank_00.json"
    path.write_text('{"version": "2.9", ' + text[1:] if text != "{" else '{"version": "2.9"')
    with pytest.raises(BadInput, match="no sound Flight Recorder dump"):
        diagnose([path])
