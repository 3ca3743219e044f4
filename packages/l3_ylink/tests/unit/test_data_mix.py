"""Mixes: Yuan 2.0's tables as weights, limits that hold, an order in which every stretch follows the mix."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.transform import mix as mixing
from l3_ylink.datakit.transform.megatron import TokenFile, TokenWriter, write_tokens
from l3_ylink.datakit.transform.mix import Mix, Part, mix_tokens, plan_mix

MIXES = Path(__file__).parents[1] / "data" / "yuan2_mixes.csv"


def yuan(mix: str) -> dict[str, float]:
    with open(MIXES, encoding="utf-8") as stream:
        return {row["source"]: float(row["percent"]) for row in csv.DictReader(stream) if row["mix"] == mix}


def plan(weights: dict[str, float | None], sizes: dict[str, int], **more: Any) -> dict[str, Part]:
    epochs = more.pop("max_epochs", {})
    sources = [
        {"name": name, "tokens": name, "weight": weight, "max_epochs": epochs.get(name)}
        for name, weight in weights.items()
    ]
    return {part.name: part for part in plan_mix(Mix.model_validate({"sources": sources, **more}), sizes)}


@pytest.mark.parametrize(("mix", "sources"), [("pretraining", 25), ("chat", 15)])
def test_the_shares_of_yuan_2(mix: str, sources: int) -> None:
    shares = yuan(mix)
    assert len(shares) == sources
    assert sum(shares.values()) == pytest.approx(100, abs=0.011)
    total = 288_000_000_000
    parts = plan(dict(shares), dict.fromkeys(shares, 10**12), total=total)
    for name, percent in shares.items():
        assert 100 * parts[name].tokens / total == pytest.approx(percent, abs=0.002)
    assert sum(part.tokens for part in parts.values()) == total


def test_a_scarce_source_of_yuan_2_is_repeated_to_its_limit_and_the_others_grow_alike() -> None:
    shares = yuan("pretraining")
    sizes = dict.fromkeys(shares, 10**9) | {"Medical (EN)": 1_000_000, "Math (CN)": 1_000_000}
    limits = {"Medical (EN)": 4.0, "Math (CN)": 2.0}
    parts = plan(dict(shares), sizes, total=3 * 10**9, max_epochs=limits)
    assert (parts["Medical (EN)"].tokens, parts["Math (CN)"].tokens) == (4_000_000, 2_000_000)
    assert (parts["Medical (EN)"].limit, parts["Medical (EN)"].epochs) == ("max_epochs", 4.0)
    others = [parts[name].tokens / shares[name] for name in shares if name not in limits]
    assert max(others) / min(others) == pytest.approx(1, rel=1e-6)
    assert others[0] > 3 * 10**9 / 100


def test_temperature_flattens() -> None:
    sizes = {"en": 1_000_000, "sw": 10_000}
    # Shares to the power 1/T: 100:1 becomes 10:1 at T = 2.
    parts = plan({"en": None, "sw": None}, sizes, total=110_000, temperature=2.0)
    assert (parts["en"].tokens, parts["sw"].tokens) == (100_000, 10_000)


def test_upsampling_has_a_limit() -> None:
    sizes = {"big": 900_000, "small": 100_000}
    parts = plan({"big": 1.0, "small": 1.0}, sizes, total=100_000, most_upsample=2.0)
    assert (parts["small"].tokens, parts["small"].limit) == (20_000, "most_upsample")


def test_without_anything_said_all_is_taken_once() -> None:
    parts = plan({"a": None, "b": None}, {"a": 7, "b": 30})
    assert [(part.tokens, part.epochs) for part in parts.values()] == [(7, 1.0), (30, 1.0)]


SOURCES = st.lists(
    st.tuples(st.floats(0.01, 100), st.integers(1, 10**9), st.none() | st.floats(0.1, 9)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=100)
@given(SOURCES, st.integers(1, 10**9), st.floats(0.3, 5), st.none() | st.floats(1, 5))
def test_limits_hold_and_free_sources_keep_their_ratio(
    sources: list[tuple[float, int, float | None]], total: int, temperature: float, upsample: float | None
) -> None:
    names = [f"s{number}" for number in range(len(sources))]
    sizes = {name: size for name, (_, size, _) in zip(names, sources, strict=True)}
    epochs = {name: most for name, (_, _, most) in zip(names, sources, strict=True)}
    weights: dict[str, float | None] = {name: row[0] for name, row in zip(names, sources, strict=True)}
    whole = sum(sizes.values())
    most = {
        name: min(epochs[name] or np.inf, (upsample or np.inf) * total / whole) * sizes[name]
        for name in names
    }
    assume(abs(sum(most.values()) - total) > 1e-6 * total)
    more = {"temperature": temperature, "most_upsample": upsample, "max_epochs": epochs}
    if sum(most.values()) < total:
        with pytest.raises(BadInput, match="the limits leave"):
            plan(weights, sizes, total=total, **more)
        return
    parts = plan(weights, sizes, total=total, **more)
    assert sum(part.tokens for part in parts.values()) == total
    for name, part in parts.items():
        assert part.tokens <= most[name] + 1
    free = [part for part in parts.values() if part.limit is None]
    for part in free:
        assert part.tokens >= part.wanted * total - 1
        ratio = part.wanted / free[0].wanted
        assert part.tokens == pytest.approx(free[0].tokens * ratio, rel=1e-6, abs=1 + ratio)


@pytest.mark.parametrize(
    ("weights", "sizes", "more", "part"),
    [
        ({"a": 1.0, "b": None}, {"a": 1, "b": 1}, {}, "b: has no weight"),
        ({"a": 1.0}, {"a": 0}, {}, "a: has no tokens"),
        ({"a": 1.0}, {"a": 10}, {"total": 50, "max_epochs": {"a": 2.0}}, "leave 20 of 50"),
    ],
)
def test_a_mix_that_cannot_be_is_told(weights: Any, sizes: Any, more: Any, part: str) -> None:
    with pytest.raises(BadInput, match=part):
        plan(weights, sizes, **more)


def files(folder: Path, counts: dict[str, int]) -> None:
    """Documents of one to nine tokens; source number and document number are in the tokens."""
    for number, (name, count) in enumerate(counts.items()):
        documents = [np.full(1 + row % 9, number * 10_000 + row) for row in range(count)]
        write_tokens(folder / name, documents, vocabulary=60_000)


@pytest.fixture
def three(tmp_path: Path) -> Mix:
    files(tmp_path, {"a": 900, "b": 300, "c": 40})
    weights = {"a": 5, "b": 3, "c": 2}
    sources = [
        {"name": name, "tokens": tmp_path / name, "weight": weight} for name, weight in weights.items()
    ]
    return Mix.model_validate({"sources": sources, "total": 4000, "seed": 7})


@pytest.mark.parametrize("slice_tokens", [100, 1000, 10**9])
def test_every_stretch_follows_the_mix(
    three: Mix, tmp_path: Path, slice_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixing, "SLICE", slice_tokens)
    monkeypatch.setattr(mixing, "DOCUMENTS", 64)
    parts = mix_tokens(tmp_path / "out", three)
    file = TokenFile(tmp_path / "out")
    source = np.asarray(file.tokens) // 10_000
    assert [part.tokens for part in parts] == np.bincount(source).tolist()
    for stretch in range(0, 4000, 500):
        share = np.bincount(source[stretch : stretch + 500], minlength=3) / 500
        assert share == pytest.approx([0.5, 0.3, 0.2], abs=0.04)


def test_an_epoch_has_each_document_once_and_the_next_another_order(three: Mix, tmp_path: Path) -> None:
    mix_tokens(tmp_path / "out", three)
    file = TokenFile(tmp_path / "out")
    small = [
        int(document[0]) - 20_000
        for document in map(file.__getitem__, range(len(file)))
        if document[0] >= 20_000
    ]
    assert sorted(small[:40]) == sorted(small[40:80]) == list(range(40))
    assert small[:40] != small[40:80] != list(range(40))


def test_the_same_seed_gives_the_same_bytes(
    three: Mix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mix_tokens(tmp_path / "one", three)
    monkeypatch.setattr(mixing, "SLICE", 333)
    mix_tokens(tmp_path / "two", three)
    mix_tokens(tmp_path / "other", three.model_copy(update={"seed": 8}))
    read = [(tmp_path / f"{name}.bin").read_bytes() for name in ("one", "two", "other")]
    assert read[0] == read[1] != read[2]


def test_masks_go_with_their_documents(tmp_path: Path) -> None:
    with TokenWriter(tmp_path / "chat", np.dtype(np.uint16), masked=True) as writer:
        writer.write(np.arange(1, 61), np.full(20, 3), np.arange(1, 61) % 3 == 0)
    write_tokens(tmp_path / "plain", [np.full(4, 999)] * 20, vocabulary=1000)
    sources = [{"name": name, "tokens": tmp_path / name} for name in ("chat", "plain")]
    mix_tokens(tmp_path / "out", Mix.model_validate({"sources": sources}))
    file = TokenFile(tmp_path / "out")
    assert file.mask is not None
    for token, learnt in zip(file.tokens.tolist(), file.mask.tolist(), strict=True):
        assert learnt == (1 if token == 999 else token % 3 == 0)


def test_files_of_two_tokenizers_are_not_mixed(tmp_path: Path) -> None:
    write_tokens(tmp_path / "a", [np.array([1])], vocabulary=100)
    write_tokens(tmp_path / "b", [np.array([1])], vocabulary=100_000)
    sources = [{"name": name, "tokens": tmp_path / name} for name in "ab"]
    with pytest.raises(BadInput, match="int32 and uint16"):
        mix_tokens(tmp_path / "out", Mix.model_validate({"sources": sources}))
