"""Near-duplicates: similarity, signatures, and which document stays."""

import random
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.purify.near import (
    U32,
    ShingleFile,
    _family,
    band_keys,
    edges_of,
    jaccard,
    leave_best,
    pairs_of,
    rank_of,
    shingles,
    signatures,
)
from l3_ylink.datakit.quality.units import split_units
from l3_ylink.datakit.steps.duplicates import Near


def shingle_set(text: str, n: int = 5) -> U32:
    return np.unique(shingles(split_units([text]), n)[0])


def plain_jaccard(one: str, other: str, n: int) -> float:
    def grams(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    both = grams(one) | grams(other)
    return len(grams(one) & grams(other)) / len(both) if both else 0.0


@settings(deadline=None)
@given(
    st.lists(st.sampled_from("abcd"), min_size=5, max_size=40),
    st.lists(st.sampled_from("abcd"), min_size=5, max_size=40),
)
def test_jaccard_equals_the_definition(one: list[str], other: list[str]) -> None:
    first, second = " ".join(one), " ".join(other)
    assert jaccard(shingle_set(first), shingle_set(second)) == pytest.approx(plain_jaccard(first, second, 5))


@pytest.mark.parametrize("similar", [0.5, 0.8, 0.95])
def test_equal_minima_estimate_the_similarity(similar: float) -> None:
    # Broder 1997: the chance of an equal minimum is the Jaccard similarity; 1024 draws, 4 sigma.
    rng = random.Random(7)
    common = [f"w{rng.randrange(10**9)}" for _ in range(2000)]
    size = round(len(common) * (1 - similar) / similar / 2)
    texts = [" ".join(common + [f"{side}{number}" for number in range(size)]) for side in ("x", "y")]
    true = jaccard(shingle_set(texts[0], 1), shingle_set(texts[1], 1))
    rows = signatures(split_units(texts), 1, 1024)
    assert abs(float((rows[0] == rows[1]).mean()) - true) < 4 * (true * (1 - true) / 1024) ** 0.5 + 1e-9


def find_in(texts: list[str], order: list[int] | None = None, threshold: float = 0.7) -> dict[int, int]:
    """What goes and what stays instead; `order`: rows from best to worst."""
    keys = band_keys(signatures(split_units(texts), 5, 112), 14)
    worth = np.zeros(len(texts))
    worth[order or list(range(len(texts)))] = -np.arange(len(texts), dtype=np.float64) / 100
    records = np.empty(keys.shape, Near.RECORD)
    records["key"], records["rank"] = keys, rank_of(worth)[:, None]
    records["row"] = np.arange(len(texts))[:, None]
    records = records[[bool(len(shingle_set(text))) for text in texts]].ravel()
    pairs = pairs_of(np.sort(records, order=("key", "rank", "row")))
    pairs = pairs[np.unique(pairs[["better", "worse"]], return_index=True)[1]]
    with tempfile.TemporaryDirectory() as folder, closing(ShingleFile(Path(folder))) as shingle_file:
        for row, text in enumerate(texts):
            shingle_file.add(row, shingle_set(text))
        shingle_file.flush()
        edges = edges_of(pairs, shingle_file, threshold)
    edges = np.sort(edges, order=("key", "worse", "better"))
    found = leave_best(edges, np.zeros(len(texts), bool))
    return dict(zip(found["worse"].tolist(), found["better"].tolist(), strict=True))


def words(seed: int, count: int = 200) -> list[str]:
    rng = random.Random(seed)
    return [f"w{rng.randrange(5000)}" for _ in range(count)]


def test_an_edited_copy_goes_and_the_best_one_stays() -> None:
    original = words(1)
    copy = [*original[:100], "changed", *original[101:]]
    texts = [" ".join(original), " ".join(copy), " ".join(words(2))]
    assert find_in(texts) == {1: 0}
    assert find_in(texts, order=[1, 0, 2]) == {0: 1}


def test_a_chain_of_edits_does_not_take_its_far_end_with_it() -> None:
    chain = [words(3)]
    for step in range(8):
        place = 25 * step
        chain.append([*chain[-1][:place], *words(100 + step, 15), *chain[-1][place + 15 :]])
    texts = [" ".join(text) for text in chain]
    dropped = find_in(texts)
    for row, kept in dropped.items():
        assert jaccard(shingle_set(texts[row]), shingle_set(texts[kept])) >= 0.7
    assert jaccard(shingle_set(texts[0]), shingle_set(texts[-1])) < 0.7
    assert dropped.get(len(texts) - 1) != 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("ab c", max_size=40), min_size=1, max_size=12))
def test_every_drop_is_certain_and_points_at_a_text_that_stays(texts: list[str]) -> None:
    dropped = find_in(texts)
    for row, kept in dropped.items():
        assert kept not in dropped
        assert jaccard(shingle_set(texts[row]), shingle_set(texts[kept])) >= 0.7


@settings(deadline=None)
@given(st.lists(st.text("ab 中文", max_size=30), min_size=1, max_size=5))
def test_a_text_has_the_same_signature_alone_and_among_others(texts: list[str]) -> None:
    together = signatures(split_units(texts), 5, 16)
    alone = np.concatenate([signatures(split_units([text]), 5, 16) for text in texts])
    assert (together == alone).all()


def plain_signature(hashes: list[int], n: int, permutations: int) -> list[int]:
    """The definition with Python's whole numbers."""
    prime, large = 0x9E3779B97F4A7C15, (1 << 64) - 1
    factors, offsets = ([int(value) for value in row] for row in _family(permutations))
    n = n if len(hashes) >= n else 1
    values = []
    for place in range(len(hashes) - n + 1):
        value = n
        for unit in hashes[place : place + n]:
            value = (value + unit) * prime & large
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & large
        value = (value ^ value >> 27) * 0x94D049BB133111EB & large
        values.append((value ^ value >> 31) >> 32)
    return [
        min((value * factor + offset & 0xFFFFFFFF for value in values), default=0xFFFFFFFF)
        for factor, offset in zip(factors, offsets, strict=True)
    ]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text("ab 中文", max_size=40), min_size=1, max_size=4), st.integers(1, 6))
def test_compiled_signatures_equal_the_definition(texts: list[str], n: int) -> None:
    rows = signatures(split_units(texts), n, 8)
    for row, text in zip(rows.tolist(), texts, strict=True):
        assert row == plain_signature(split_units([text]).hash.tolist(), n, 8)


def test_signatures_are_frozen() -> None:
    """Earlier runs are compared by these numbers."""
    rows = signatures(split_units(["a b c d e f g"]), 5, 4)
    assert rows.tolist() == [[454803959, 2780984076, 392800985, 637310421]]
    assert band_keys(rows, 2).tolist() == [[4316314572136337828, 13034828849434438797]]


def test_texts_shorter_than_a_shingle_are_compared_by_their_units() -> None:
    assert find_in(["床前明月光"[:3], "床前明", "疑是地"]) == {1: 0}
    assert find_in(["", "", "。"]) == {}
