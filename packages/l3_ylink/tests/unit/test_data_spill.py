"""Sorting on disk: everything comes back once, in order, equal keys together, whatever the memory."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.documents.spill import Spill, position_key

RECORD = np.dtype([("key", np.uint64), ("row", np.int64)])
KEYS = st.lists(st.integers(0, 3) | st.integers(0, 2**64 - 1), max_size=200)


@settings(deadline=None, max_examples=60)
@given(KEYS, st.sampled_from([16, 64, 500, 10**6]), st.integers(1, 50))
def test_records_come_back_sorted_with_equal_keys_in_one_part(
    keys: list[int], memory: int, piece: int
) -> None:
    records = np.zeros(len(keys), RECORD)
    records["key"], records["row"] = np.asarray(keys, np.uint64), np.arange(len(keys))[::-1]
    with TemporaryDirectory() as folder:
        spill = Spill(Path(folder), RECORD, memory=memory)
        for start in range(0, len(records), piece):
            spill.add(records[start : start + piece])
        assert spill.count == len(keys)
        parts = [part.copy() for part in spill.parts("key", "row")]
        assert not list(Path(folder).iterdir()), "the files are gone"
    together = np.concatenate(parts) if parts else np.zeros(0, RECORD)
    assert together.tolist() == np.sort(records, order=("key", "row")).tolist()
    seen = [set(part["key"].tolist()) for part in parts]
    assert sum(map(len, seen)) == len(set(keys))


def test_parts_are_small_when_keys_are_spread(tmp_path: Path) -> None:
    count = 20_000
    records = np.zeros(count, RECORD)
    records["row"] = np.random.default_rng(1).permutation(count)
    records["key"] = position_key(records["row"], count)
    spill = Spill(tmp_path, RECORD, memory=16_000)
    spill.add(records)
    parts = list(spill.parts("key"))
    assert max(part.nbytes for part in parts) <= 16_000
    assert np.concatenate(parts)["row"].tolist() == list(range(count))
