"""Columns to Arrow and back: the same values as pyarrow's own conversion."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.documents.columns import array, numbers_or_null, plain, strings, table

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(deadline=None)
@given(st.lists(TEXT | st.none(), max_size=20))
def test_strings_and_nulls(values: list[str | None]) -> None:
    found = strings(values)
    found.validate(full=True)
    assert found.equals(pa.array(values, pa.large_string()))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=5), min_size=1, max_size=20))
def test_bytes(values: list[bytes]) -> None:
    assert array(values).equals(pa.array(values, pa.large_binary()))


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_truth_values(values: list[bool]) -> None:
    assert array(values).to_pylist() == array(np.asarray(values)).to_pylist() == values


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_whole_numbers(values: list[int]) -> None:
    assert array(np.asarray(values, np.int64)[::-1]).to_pylist() == values[::-1]


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False) | st.none(), max_size=20))
def test_nan_is_null(values: list[float | None]) -> None:
    numbers = np.asarray([np.nan if value is None else value for value in values], np.float64)
    assert numbers_or_null(numbers).to_pylist() == values


def test_what_utf_8_cannot_hold_is_replaced() -> None:
    assert strings(["a\ud800b", "\ud83d\ude00"]).to_pylist() == ["a\ufffdb", "😀"]


def test_an_empty_table_has_its_columns() -> None:
    assert table({"id": [], "n": np.zeros(0, np.int64)}).schema.names == ["id", "n"]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=20), min_size=1, max_size=3),
    st.sampled_from([np.int16, np.int32, np.int64, np.float64, bool]),
    st.integers(0, 3),
)
def test_numbers_come_back_from_chunks_and_slices(parts: list[list[int]], kind: type, start: int) -> None:
    arrays: list[npt.NDArray[Any]] = [np.asarray(part, kind) for part in parts]
    column = pa.chunked_array([array(part) for part in arrays]).slice(start)
    assert plain(column).tolist() == np.concatenate(arrays)[start:].tolist()
    assert plain(column).dtype == kind
