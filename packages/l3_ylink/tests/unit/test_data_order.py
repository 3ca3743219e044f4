"""Random orders: one to one, the same for a seed, and without a preference."""

import random
import statistics
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.documents import columns
from l3_ylink.datakit.transform.order import Permutation, mix_bits, row_keys
from l3_ylink.datakit.transform.shuffle import KEY, shuffled


def test_the_finaliser_is_splitmix64() -> None:
    # First outputs of the published generator for the seed 1234567.
    state = np.uint64(1234567) + np.arange(1, 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mix_bits(state).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**63))
def test_an_order_has_every_number_once(count: int, seed: int) -> None:
    order = Permutation(count, seed)
    assert sorted(order(np.arange(count)).tolist()) == list(range(count))


def test_a_huge_order_needs_no_memory() -> None:
    order = Permutation(10**13 + 7, 5)
    found = order(np.arange(10**12, 10**12 + 10_000))
    assert len(set(found.tolist())) == 10_000
    assert found.min() >= 0
    assert found.max() < 10**13 + 7
    assert abs(found.mean() / 10**13 - 0.5) < 0.02


def even(counts: list[int]) -> bool:
    """Chi-square of equal frequencies, below the mean by six deviations of the chance that there is none."""
    expected = statistics.mean(counts)
    chi = sum((count - expected) ** 2 / expected for count in counts)
    free = len(counts) - 1
    return bool(chi < free + 6 * (2 * free) ** 0.5)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_order_of_a_few_is_as_likely(count: int) -> None:
    found = Counter(tuple(Permutation(count, seed)(np.arange(count)).tolist()) for seed in range(1200))
    assert even([found[order] for order in permutations(range(count))])
    keyed = Counter(tuple(np.argsort(row_keys(0, count, seed)).tolist()) for seed in range(1200))
    assert even([keyed[order] for order in permutations(range(count))])


def test_keys_do_not_depend_on_how_rows_are_asked_for() -> None:
    assert row_keys(0, 100, 3).tolist() == [*row_keys(0, 40, 3).tolist(), *row_keys(40, 60, 3).tolist()]
    assert row_keys(0, 9, 3).tolist() != row_keys(0, 9, 4).tolist()


SIZES = st.lists(st.integers(0, 60), max_size=5)


def tables(sizes: list[int]) -> list[Any]:
    rows = iter(range(10**6))
    return [columns.table({"line": [b"%d" % next(rows) * 9 for _ in range(size)]}) for size in sizes if size]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(0, 60), max_size=5), st.integers(0, 99), st.integers(2, 4), st.integers(300, 4000)
)
def test_a_shuffle_is_the_same_for_any_memory(
    tmp_path: Path, sizes: list[int], seed: int, fan_out: int, memory: int
) -> None:
    whole = [line for table in tables(sizes) for line in table["line"].to_pylist()]
    expected = [whole[row] for row in np.argsort(row_keys(0, len(whole), seed), kind="stable")]
    parts = shuffled(iter(tables(sizes)), seed, tmp_path, memory=memory, fan_out=fan_out)
    found = [(line, table.column_names) for table in parts for line in table["line"].to_pylist()]
    assert [line for line, _ in found] == expected
    assert all(KEY not in names for _, names in found)
    assert list(tmp_path.iterdir()) == []


def test_memory_of_a_shuffle_is_bounded(tmp_path: Path) -> None:
    import pyarrow as pa

    def feed() -> Any:
        for number in range(40):
            yield columns.table({"line": [random.Random(number).randbytes(1000) for _ in range(1000)]})

    before = pa.total_allocated_bytes()
    peak = rows = 0
    for table in shuffled(feed(), 1, tmp_path, memory=4_000_000, fan_out=4):
        rows += table.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)
        assert table.nbytes < 8_000_000
    assert rows == 40_000
    assert peak < 20_000_000, "of 40 MB"
