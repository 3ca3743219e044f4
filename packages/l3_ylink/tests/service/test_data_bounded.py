"""Runs over more than memory holds: parts of blocks, resuming inside a file, earlier runs, alarms."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit import measure
from l3_ylink.datakit.documents.store import BlockStore
from l3_ylink.datakit.plan import RunPlan
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import DataRun, run_recipe

SENTENCE = "the node reports that a disk of it is full and so the job with many ranks has to wait for room"
WORDS = SENTENCE.split()
NEAR: list[dict[str, Any]] = [{"step": "extract"}, {"step": "exact"}, {"step": "near"}]


def prose(seed: int, count: int = 120) -> str:
    rng = random.Random(seed)
    return " ".join(f"{rng.choice(WORDS)}{rng.randrange(40) or ''}" for _ in range(count))


def run(folder: Path, out: Path, steps: list[dict[str, Any]], **more: Any) -> DataRun:
    sources = [
        {"name": name, "licence": "MIT", "include": [f"{name}*"]} for name in more.pop("names", ("a",))
    ]
    recipe = parse_recipe({"name": "x", "sources": sources, "steps": steps, **more})
    return run_recipe(recipe, input_folder=folder, out=out)


def fates(out: Path) -> dict[str, tuple[str | None, str | None]]:
    rows = pq.ParquetFile(out / "decisions.parquet").read().to_pylist()
    return {row["id"].split("#")[-1]: (row["reason"], row["other"]) for row in rows}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", ".costs.jsonl")
    }


def rows_of(folder: Path, name: str, seeds: range) -> None:
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": f"{name}{seed}", "text": prose(seed)}) for seed in seeds]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def test_a_compressed_file_is_committed_in_parts_and_a_killed_run_repeats_at_most_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lines = "\n".join(json.dumps({"id": str(seed), "text": prose(seed)}) for seed in range(60))
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    monkeypatch.setattr(measure, "PART_CHARACTERS", 8_000)
    monkeypatch.setattr(measure, "CHARACTERS_AT_ONCE", 3_000)
    whole = run(folder, tmp_path / "whole", NEAR)
    parts = sorted((whole.folder / "signals").glob("block-000000-*.parquet"))
    assert len(parts) > 3
    assert max(pq.read_metadata(part).num_rows for part in parts) < 20

    commit = BlockStore.commit
    measured: list[int] = []

    def dies_at(part: int) -> Any:
        def committing(self: BlockStore, number: int, at: int, *rest: Any, **more: Any) -> Any:
            if at == part:
                raise KeyboardInterrupt
            measured.append(at)
            return commit(self, number, at, *rest, **more)

        return committing

    for part in (2, 2, len(parts) - 1):
        monkeypatch.setattr(BlockStore, "commit", dies_at(part))
        with pytest.raises(KeyboardInterrupt):
            run(folder, tmp_path / "out", NEAR)
    monkeypatch.setattr(BlockStore, "commit", dies_at(-1))
    done = run(folder, tmp_path / "out", NEAR)
    assert measured == list(range(len(parts))), "no part was measured twice to the end"
    different = {"run.json"}
    mine, theirs = bytes_of(done.folder), bytes_of(whole.folder)
    assert {name: mine[name] for name in mine.keys() - different} == {
        name: theirs[name] for name in theirs.keys() - different
    }


def test_a_file_that_is_skipped_halfway_is_skipped_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of(tmp_path / "in", "a", range(30))
    rows_of(tmp_path / "in", "a2", range(100, 103))
    monkeypatch.setattr(measure, "PART_CHARACTERS", 4_000)
    monkeypatch.setattr(measure, "CHARACTERS_AT_ONCE", 2_000)
    recipe = parse_recipe(
        {"name": "x", "sources": [{"name": "s", "licence": "MIT"}], "steps": [{"step": "extract"}]}
    )
    first = run_recipe(recipe, input_folder=tmp_path / "in", out=tmp_path / "out")
    store = BlockStore(tmp_path / "out/signals")
    loaded = RunPlan.load(first.folder)
    block = loaded.blocks[0]
    parts = measure.measure_block(
        loaded.recipe,
        loaded.input,
        store,
        block,
        loaded.block_key(block),
        skip=frozenset({"a.jsonl"}),
    )
    assert sum(part.rows for part in parts) == 4
    again = measure.measure_block(loaded.recipe, loaded.input, store, block, loaded.block_key(block))
    assert again == parts, "another attempt passes over the file, too"


def test_what_an_earlier_run_kept_is_there_already(tmp_path: Path) -> None:
    rows_of(tmp_path / "old", "a", range(10))
    old = run(tmp_path / "old", tmp_path / "first", NEAR)
    assert old.manifest.rows == 10
    folder = tmp_path / "new"
    rows_of(folder, "a", range(100, 104))
    longer = prose(3) + " and one more sentence makes this copy the longer one"
    with (folder / "a.jsonl").open("a") as stream:
        stream.writelines(
            json.dumps({"id": mark, "text": text}) + "\n"
            for mark, text in (("same", prose(2)), ("like", longer))
        )
    done = run(folder, tmp_path / "second", NEAR, earlier=["../first"])
    found = fates(done.folder)
    assert found["same"] == ("same_text", "first:a.jsonl#a2")
    assert found["like"] == ("similar_text", "first:a.jsonl#a3")
    assert [mark for mark, (reason, _) in found.items() if reason is None] == ["a100", "a101", "a102", "a103"]
    third = run(folder, tmp_path / "third", NEAR, earlier=["../first", "../second"])
    assert third.manifest.rows == 0


def test_an_earlier_run_that_measured_otherwise_is_refused(tmp_path: Path) -> None:
    rows_of(tmp_path / "in", "a", range(3))
    run(tmp_path / "in", tmp_path / "first", NEAR)
    other = [*NEAR[:2], {"step": "near", "shingle": 3}]
    with pytest.raises(BadInput, match="step near has other settings"):
        run(tmp_path / "in", tmp_path / "second", other, earlier=["../first"])
    assert not (tmp_path / "second").exists()


def test_a_source_that_is_nearly_wiped_out_raises_an_alarm(tmp_path: Path) -> None:
    rows_of(tmp_path / "in", "a", range(40))
    (tmp_path / "in/b.jsonl").write_text(
        (tmp_path / "in/a.jsonl").read_text().replace('"id": "a', '"id": "b')
    )
    out = run(tmp_path / "in", tmp_path / "out", NEAR, names=("a", "b")).folder
    about = json.loads((out / "funnel.json").read_bytes())
    assert about["alarms"] == [{"step": "exact", "source": "b", "seen": 40, "dropped": 40}]
    assert about["steps"][1]["dropped"] == {"same_text": 40}


def test_the_reader_of_a_large_document_never_gives_more_than_the_longest(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("字" * 2_500_000)
    out = run(tmp_path / "in", tmp_path / "out", [{"step": "extract"}]).folder
    texts = (
        pq.ParquetFile(next((out / "signals").glob("*.parquet"))).read(columns=["text"]).column(0).to_pylist()
    )
    assert [len(text) for text in texts] == [1_000_000, 1_000_000, 500_000]
