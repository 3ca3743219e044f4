"""Megatron's token files: bytes as its own reader expects them."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.transform.megatron import TokenFile, join, token_type, write_tokens

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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_parts_joined_equal_one_file(tmp_path: Path) -> None:
    documents = [np.arange(start, start + 5) for start in range(0, 50, 5)]
    write_tokens(tmp_path / "whole", documents, vocabulary=100)
    parts, lengths = [], []
    for number in range(2):
        some = documents[number * 5 : number * 5 + 5]
        path = tmp_path / f"part-{number}"
        path.write_bytes(np.concatenate(some).astype(np.uint16).tobytes())
        parts.append(path)
        lengths.append(np.full(5, 5, np.int32))
    join(tmp_path / "joined", parts, lengths, np.dtype(np.uint16))
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"joined{suffix}").read_bytes() == (tmp_path / f"whole{suffix}").read_bytes()


@pytest.mark.parametrize(
    ("content", "part"), [(b"", "too short"), (b"X" * 60, "not a Megatron index"), (None, "cut short")]
)
def test_a_damaged_index_is_told(tmp_path: Path, content: bytes | None, part: str) -> None:
    write_tokens(tmp_path / "x", [np.array([1, 2])] * 9, vocabulary=100)
    whole = (tmp_path / "x.idx").read_bytes()
    (tmp_path / "x.idx").write_bytes(whole[:-20] if content is None else content)
    with pytest.raises(BadInput, match=part):
        TokenFile(tmp_path / "x")


def test_megatron_core_reads_it(tmp_path: Path) -> None:
    indexed = pytest.importorskip(
        "megatron.core.datasets.indexed_dataset", reason="megatron-core is not installed"
    )
    documents = [np.array([], np.int64), np.array([3, 1, 4]), np.array([1, 5])]
    write_tokens(tmp_path / "x", documents, vocabulary=100)
    theirs = indexed.IndexedDataset(str(tmp_path / "x"))
    assert [theirs[number].tolist() for number in range(len(theirs))] == [d.tolist() for d in documents]
