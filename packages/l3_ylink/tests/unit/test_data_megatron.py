"""Megatron's token files: bytes as its own reader expects them."""

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.transform.megatron import (
    CHUNK,
    TokenFile,
    Tokens,
    token_type,
    with_suffix,
    write_index,
    write_index_chunks,
    write_tokens,
)
from l3_ylink.datakit.transform.merge import merge_tokens

DOCUMENTS = st.lists(st.lists(st.integers(0, 65_499), max_size=20), max_size=12)


def test_the_index_is_byte_for_byte_what_megatron_writes(tmp_path: Path) -> None:
    write_tokens(tmp_path / "x", [np.array([7, 8, 9]), np.array([1])], vocabulary=100)
    expected = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 2, 3)
    expected += struct.pack("<ii", 3, 1) + struct.pack("<qq", 0, 6) + struct.pack("<qqq", 0, 1, 2)
    assert (tmp_path / "x.idx").read_bytes() == expected
    assert (tmp_path / "x.bin").read_bytes() == struct.pack("<4H", 7, 8, 9, 1)


def test_the_size_of_an_index_of_five_documents_is_142_bytes(tmp_path: Path) -> None:
    write_tokens(tmp_path / "x", [np.array([1])] * 5, vocabulary=100)
    assert (tmp_path / "x.idx").stat().st_size == 142


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65_499, "uint16"), (65_500, "int32"), (151_643, "int32")])
def test_the_type_follows_megatrons_rule(vocabulary: int, dtype: str) -> None:
    assert token_type(vocabulary) == np.dtype(dtype)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(DOCUMENTS, st.sampled_from([100, 70_000]))
def test_what_is_written_is_read(tmp_path: Path, documents: list[list[int]], vocabulary: int) -> None:
    arrays = [np.array(document, np.int64) for document in documents]
    assert write_tokens(tmp_path / "x", arrays, vocabulary=vocabulary) == (
        len(documents),
        sum(map(len, documents)),
    )
    file = TokenFile(tmp_path / "x")
    assert [file[number].tolist() for number in range(len(file))] == documents
    assert file.tokens.tolist() == [token for document in documents for token in document]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(DOCUMENTS, min_size=1, max_size=5), st.sampled_from([100, 70_000]))
def test_merged_files_equal_one_file(tmp_path: Path, files: list[list[list[int]]], vocabulary: int) -> None:
    for number, documents in enumerate(files):
        write_tokens(tmp_path / f"part.{number}", map(np.array, documents), vocabulary=vocabulary)
    everything = [document for documents in files for document in documents]
    write_tokens(tmp_path / "whole", map(np.array, everything), vocabulary=vocabulary)
    sources = [tmp_path / f"part.{number}" for number in range(len(files))]
    assert merge_tokens(tmp_path / "merged", sources) == (len(everything), sum(map(len, everything)))
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"merged{suffix}").read_bytes() == (tmp_path / f"whole{suffix}").read_bytes()


def cut(prefix: Path, lengths: Tokens, entries: Tokens) -> None:
    """A token file whose documents are cut into sequences."""
    with_suffix(prefix, ".bin").write_bytes(bytes(2 * int(lengths.sum())))
    sizes = (len(lengths), len(entries))
    path = with_suffix(prefix, ".idx")
    write_index_chunks(path, np.dtype(np.uint16), *sizes, lambda: iter([lengths]), lambda: iter([entries]))


def test_documents_of_several_sequences_stay_together(tmp_path: Path) -> None:
    # Megatron may cut a document into sentences: then the document entries skip.
    cut(tmp_path / "a", np.array([3, 1, 2]), np.array([0, 2, 3]))
    cut(tmp_path / "b", np.array([3, 1]), np.array([0, 0, 2]))
    merge_tokens(tmp_path / "m", [tmp_path / "a", tmp_path / "b"])
    assert TokenFile(tmp_path / "m").documents.tolist() == [0, 2, 3, 3, 5]


def sparse(prefix: Path, lengths: list[int], last: bytes) -> None:
    """A token file whose tokens are a hole, but for the last ones."""
    with open(f"{prefix}.bin", "wb") as stream:
        stream.truncate(sum(lengths) * 2)
        stream.seek(-len(last), 2)
        stream.write(last)
    write_index(prefix.with_name(prefix.name + ".idx"), np.array(lengths), np.dtype(np.uint16))


def test_a_merge_beyond_32_bits_of_bytes_and_of_tokens(tmp_path: Path) -> None:
    # Megatron-LM#1672: pointers overflowed beyond some 40 billion tokens.
    longest = 2**31 - 1
    sparse(tmp_path / "a", [0, longest, longest], b"\x07\x00")
    sparse(tmp_path / "b", [longest, 5], b"\x08\x00" * 5)
    documents, tokens = merge_tokens(tmp_path / "m", [tmp_path / "a", tmp_path / "b"])
    assert (documents, tokens) == (5, 3 * longest + 5)
    file = TokenFile(tmp_path / "m")
    assert tokens > 2**32
    assert file.offsets.tolist() == [0, 0, 2 * longest, 4 * longest, 6 * longest]
    assert file[2][-1] == 7
    assert file[4].tolist() == [8] * 5
    assert (tmp_path / "m.bin").stat().st_blocks * 512 < 10_000_000, "holes were filled"


def test_memory_of_a_merge_does_not_grow_with_what_is_merged(tmp_path: Path) -> None:
    # NeMo Speech#12993: 2,000 shards took more than 200 GB.
    count = 4_000_000
    (tmp_path / "a.bin").write_bytes(bytes(2 * count))
    write_index(tmp_path / "a.idx", np.ones(count, np.int32), np.dtype(np.uint16))
    tracemalloc.start()
    merge_tokens(tmp_path / "m", [tmp_path / "a"] * 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 8 * CHUNK, "some columns of one chunk of documents, not twelve million of them"


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda p: write_tokens(p / "b", [np.array([1])], vocabulary=70_000), "holds int32"),
        (lambda p: (p / "b.bin").write_bytes(b"123"), "disagree"),
        (lambda p: (p / "b.bin").unlink(), "disagree"),
        (lambda p: (p / "b.idx").unlink(), "no such index"),
        (lambda p: (p / "b.idx").write_bytes((p / "b.idx").read_bytes() + b"\0"), "modes"),
    ],
)
def test_a_merge_names_the_file_at_fault(tmp_path: Path, make: Callable[[Path], object], part: str) -> None:
    write_tokens(tmp_path / "a", [np.array([1])], vocabulary=100)
    write_tokens(tmp_path / "b", [np.array([1])], vocabulary=100)
    make(tmp_path)
    with pytest.raises(BadInput, match=part) as problem:
        merge_tokens(tmp_path / "m", [tmp_path / "a", tmp_path / "b"])
    assert str(tmp_path / "b") in str(problem.value.field)
    assert not (tmp_path / "m.bin").exists()
    with pytest.raises(BadInput, match="also the target"):
        merge_tokens(tmp_path / "a", [tmp_path / "a"])


def test_a_token_that_does_not_fit_is_refused_and_nothing_stays(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="token 70000 does not fit into uint16"):
        write_tokens(tmp_path / "x", [np.array([1]), np.array([70_000])], vocabulary=100)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "part"), [(b"", "too short"), (b"X" * 60, "not a Megatron index"), (None, "cut short")]
)
def test_a_damaged_index_is_told(tmp_path: Path, content: bytes | None, part: str) -> None:
    write_tokens(tmp_path / "x", [np.array([1, 2])] * 9, vocabulary=100)
    whole = (tmp_path / "x.idx").read_bytes()
    (tmp_path / "x.idx").write_bytes(whole[:-20] if content is None else content)
    with pytest.raises(BadInput, match=part):
        TokenFile(tmp_path / "x")
