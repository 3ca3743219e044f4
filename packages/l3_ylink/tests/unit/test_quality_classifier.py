"""Classifiers: they learn, their figures are those of unseen texts, and they are the same each time."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput, NotFound
from l3_ylink.datakit.quality import hashed
from l3_ylink.datakit.quality.classifier import Kind, Training, load, part_of, train
from l3_ylink.datakit.quality.labelled import Example, read_examples
from l3_ylink.datakit.quality.units import split_units

GOOD = [
    "研究",
    "方法",
    "数据",
    "实验",
    "结果",
    "分析",
    "理论",
    "系统",
    "the",
    "method",
    "shows",
    "results",
    "in",
    "data",
    "analysis",
]
SPAM = [
    "优惠",
    "点击",
    "免费",
    "注册",
    "棋牌",
    "下载",
    "加微信",
    "立即",
    "click",
    "here",
    "free",
    "bonus",
    "casino",
    "win",
    "now",
]


def examples(count: int, seed: int = 0) -> list[Example]:
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        words, other = (GOOD, SPAM) if number % 2 else (SPAM, GOOD)
        text = [draw.choice(words if draw.random() < 0.85 else other) for _ in range(draw.randint(8, 40))]
        rows.append(Example(" ".join(text), "good" if number % 2 else "spam"))
    return rows


@pytest.mark.parametrize("kind", ["ngrams", "fasttext"])
def test_it_tells_good_texts_from_spam_and_is_the_same_each_time(tmp_path: Path, kind: Kind) -> None:
    if kind == "fasttext":
        pytest.importorskip("fasttext")
    how = Training(kind=kind, positive="good", epochs=20 if kind == "fasttext" else 5)
    made = train(examples(800), tmp_path / "one", how)
    train(examples(800), tmp_path / "two", how)
    assert made.report["test"]["equal"] > 0.95
    assert made.report["reliability"]["calibrated"]["auc"] > 0.98
    assert (tmp_path / "one/classifier.json").read_bytes() == (tmp_path / "two/classifier.json").read_bytes()
    loaded = load(tmp_path / "one")
    scores, labels = loaded.score(split_units(["the analysis of data 实验结果", "点击免费注册棋牌", ""]))
    assert labels[:2] == ["good", "spam"]
    assert scores[0] > 0.8 > 0.2 > scores[1]
    assert 0 <= scores[2] <= 1


def test_equal_texts_are_always_in_one_part() -> None:
    assert part_of("a  b\nc") == part_of("a b c")
    parts = [part_of(f"text {number}") for number in range(2000)]
    assert {part: round(parts.count(part) / 2000, 1) for part in set(parts)} == {
        "train": 0.8,
        "calibrate": 0.1,
        "test": 0.1,
    }


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet="ab 中文,.\n'\ud800\0", max_size=30), max_size=5), st.integers(1, 12))
def test_the_compiled_sums_are_those_of_numpy(texts: list[str], longest: int) -> None:
    units = split_units(texts or [""])
    found, start = hashed.buckets(units, 10, longest)
    expected, expected_start = hashed.buckets_in_numpy(units, 10, longest)
    assert found.tolist() == expected.tolist()
    assert start.tolist() == expected_start.tolist()
    draw = np.random.default_rng(1)
    weights, bias = draw.normal(size=(1024, 3)).astype(np.float32), np.array([0.1, -0.2, 0.3])
    logits = hashed.logits_in_numpy(found, start, weights, bias)
    powers = np.exp(logits)
    assert np.allclose(
        hashed.probabilities(found, start, weights, bias), powers / powers.sum(1, keepdims=True), atol=1e-9
    )


def test_buckets_stay_what_they_were() -> None:
    """Golden: stored models depend on them."""
    found, start = hashed.buckets(split_units(["The quick fox", "试一试"]), 20, 100)
    assert start.tolist() == [0, 5, 10]
    assert (
        found[[0, 2, 4]].tolist()
        == hashed.buckets(split_units(["the Quick FOX"]), 20, 100)[0][[0, 2, 4]].tolist()
    )
    assert found[5] == found[8]  # 试 and 试


@pytest.mark.parametrize(
    ("rows", "positive", "part"),
    [
        (examples(10), "good", "too few"),
        (examples(100), "fine", "no row has the label 'fine'"),
        ([Example(f"text {n}", "good") for n in range(50)], "good", "only one label"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    tmp_path: Path, rows: list[Example], positive: str, part: str
) -> None:
    with pytest.raises(BadInput, match=part):
        train(rows, tmp_path / "m", Training(positive=positive))
    assert not (tmp_path / "m").exists()


def test_a_classifier_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no classifier here"):
        load(tmp_path)
    train(examples(200), tmp_path, Training(positive="good"))
    about = json.loads((tmp_path / "classifier.json").read_text())
    (tmp_path / "classifier.json").write_text(json.dumps({**about, "probe": "00"}))
    with pytest.raises(BadInput, match="another version"):
        load(tmp_path)
    (tmp_path / "classifier.json").write_text(json.dumps(about))
    (tmp_path / "weights.npz").write_bytes(b"PK")
    with pytest.raises(BadInput, match="does not belong"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("line", "part"),
    [("{", "line 1 is not JSON"), ('{"text": 1}', "line 1 has no text"), ('{"text": "a"}', "has no label")],
)
def test_a_broken_row_is_named(tmp_path: Path, line: str, part: str) -> None:
    (tmp_path / "rows.jsonl").write_text(line + "\n")
    with pytest.raises(BadInput, match=part):
        read_examples(tmp_path / "rows.jsonl")


def test_a_small_model_keeps_its_largest_weights(tmp_path: Path) -> None:
    whole = train(examples(800), tmp_path / "whole", Training(positive="good"))
    small = train(examples(800), tmp_path / "small", Training(positive="good", most_weights=40))
    sizes = [(tmp_path / name / "weights.npz").stat().st_size for name in ("whole", "small")]
    assert sizes[1] < sizes[0] / 4
    assert small.report["test"]["equal"] > whole.report["test"]["equal"] - 0.1
