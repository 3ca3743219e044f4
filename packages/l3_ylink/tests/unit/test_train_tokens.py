"""Token shards: every sample once, the same order whoever reads, and damage named."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.documents import Producer, digest_of_file
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import DatasetManifest, Shard
from l3_ylink.trainkit.tokens import (
    TokenDataset,
    TokenFile,
    open_dataset,
    position_of,
    read_manifest,
    vocabulary_of,
)

ZEROS = "sha256:" + "0" * 64


def dataset(sizes: list[int], sequence: int, seed: int = 0) -> TokenDataset:
    """Shards that hold 0, 1, 2 … in a row, so that a sample's first token is its place."""
    numbers = np.arange(sum(sizes))
    files = [TokenFile(f"{i}.bin", part) for i, part in enumerate(np.split(numbers, np.cumsum(sizes)[:-1]))]
    return TokenDataset(files, sequence, seed)


def write_pair(folder: Path, tokens: list[int], name: str = "text", code: int = 8) -> list[Shard]:
    """One document in Megatron's format: header, length, pointer, two document marks."""
    (folder / f"{name}.bin").write_bytes(np.array(tokens, np.uint16).tobytes())
    head = struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", 1, code, 1, 2)
    rest = np.array([len(tokens)], np.int32).tobytes() + np.array([0, 0, 1], np.int64).tobytes()
    (folder / f"{name}.idx").write_bytes(head + rest)
    return [
        Shard(uri=file.name, sha256=digest_of_file(file), bytes=file.stat().st_size, rows=rows)
        for file, rows in ((folder / f"{name}.bin", 1), (folder / f"{name}.idx", 0))
    ]


def write_manifest(folder: Path, shards: list[Shard], kind: str = "tokens") -> DatasetManifest:
    manifest = DatasetManifest(
        producer=Producer(name="test", version="1"),
        name="test",
        kind=kind,
        shards=shards,
        rows=1,
        recipe_digest=ZEROS,
    )
    manifest.write(folder / "dataset-manifest.json")
    return manifest


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(lambda sizes: sum(sizes) >= 20),
    sequence=st.integers(1, 9),
    seed=st.integers(0, 2**31),
)
def test_an_epoch_reads_every_sample_once_and_targets_follow_inputs(
    sizes: list[int], sequence: int, seed: int
) -> None:
    data = dataset(sizes, sequence, seed)
    rows = data.batch(0, data.samples)
    assert sorted(rows[:, 0]) == list(range(0, data.samples * sequence, sequence))
    assert (np.diff(rows, axis=1) == 1).all()
    again = data.batch(data.samples, data.samples)
    assert sorted(again[:, 0]) == sorted(rows[:, 0])


@settings(deadline=None)
@given(ranks=st.sampled_from([1, 2, 4, 8]), accumulated=st.sampled_from([1, 2, 4]), stop=st.integers(0, 6))
def test_any_world_and_any_interruption_read_the_same_samples(
    ranks: int, accumulated: int, stop: int
) -> None:
    batch, steps = 32, 6
    micro = batch // ranks // accumulated
    data = dataset([500], 4, seed=3)

    def reads(first: int, last: int) -> Counter[int]:
        positions = [
            position_of(step, part, rank, global_batch=batch, micro_batch=micro, data_parallel=ranks)
            for step in range(first, last)
            for part in range(accumulated)
            for rank in range(ranks)
        ]
        return Counter(int(row[0]) for start in positions for row in data.batch(start, micro))

    undisturbed = Counter(int(row[0]) for row in data.batch(0, steps * batch))
    assert reads(0, stop) + reads(stop, steps) == undisturbed


def test_seeds_give_other_orders() -> None:
    first, second = (dataset([200], 4, seed).batch(0, 40)[:, 0].tolist() for seed in (0, 1))
    assert first != second


def test_a_data_set_shorter_than_a_sample_is_refused() -> None:
    with pytest.raises(BadInput, match="4 tokens, one sample needs 5"):
        dataset([4], 4)


def test_an_empty_data_set_is_refused(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, [])
    with pytest.raises(BadInput, match="0 tokens"):
        open_dataset(tmp_path, manifest, sequence=4, seed=0, vocabulary=10, verify=True)


def opened(folder: Path, manifest: DatasetManifest, vocabulary: int = 100) -> TokenDataset:
    return open_dataset(folder, manifest, sequence=4, seed=0, vocabulary=vocabulary, verify=True)


def test_shards_are_read_as_they_were_written(tmp_path: Path) -> None:
    manifest = write_manifest(
        tmp_path, [*write_pair(tmp_path, list(range(9))), *write_pair(tmp_path, list(range(9, 21)), "b")]
    )
    rows = opened(tmp_path, manifest).batch(0, 5)
    assert sorted(rows.tolist()) == [list(range(start, start + 5)) for start in range(0, 20, 4)]


@pytest.mark.parametrize("name", ["text.bin", "text.idx"])
@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_a_damaged_shard_is_named(tmp_path: Path, name: str, damage: str) -> None:
    manifest = write_manifest(tmp_path, write_pair(tmp_path, list(range(9))))
    file = tmp_path / name
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(whole[:-1] if damage == "cut" else bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(BadInput) as refused:
        opened(tmp_path, manifest)
    assert refused.value.field == name
    assert {"missing": "missing", "cut": "bytes", "flipped": "SHA-256"}[damage] in refused.value.what


def test_a_token_beyond_the_vocabulary_is_refused(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, write_pair(tmp_path, [1, 2, 3, 99, 5, 6]))
    opened(tmp_path, manifest, vocabulary=100)
    with pytest.raises(BadInput, match="holds token 99, the model's vocabulary is 99"):
        opened(tmp_path, manifest, vocabulary=99)


def test_an_index_of_another_format_is_refused(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, write_pair(tmp_path, list(range(9)), code=7))
    with pytest.raises(BadInput, match="not a Megatron index"):
        opened(tmp_path, manifest)


def test_a_bin_without_its_index_is_refused(tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path, write_pair(tmp_path, list(range(9)))[:1])
    with pytest.raises(BadInput, match=r"no text\.idx"):
        opened(tmp_path, manifest)


def test_a_data_set_of_another_kind_is_refused(tmp_path: Path) -> None:
    write_manifest(tmp_path, [], kind="text")
    with pytest.raises(BadInput, match="data set of text"):
        read_manifest(tmp_path)


def test_the_vocabulary_covers_added_tokens_and_is_a_multiple_of_64(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text('{"model": {"vocab": {"a": 0, "b": 62}}, "added_tokens": [{"id": 63}]}', "utf-8")
    assert vocabulary_of(file) == 64
    file.write_text('{"model": {"vocab": {"a": 0}}, "added_tokens": [{"id": 64}]}', "utf-8")
    assert vocabulary_of(file) == 128
