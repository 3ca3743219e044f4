"""Texts to ids: fastokens gives what tokenizers gives, or is not used."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.transform import encoder
from l3_ylink.datakit.transform.encoder import (
    Encoded,
    Fastokens,
    Tokenizers,
    encode_documents,
    groups,
    load_encoder,
)
from l3_ylink.datakit.transform.tokens import train_tokenizer

END = "<|endoftext|>"
TEXTS = [
    "The cluster has many nodes. " * 20,
    "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。" * 20,
    "x = 12345\n" * 9,
]


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    train_tokenizer(TEXTS, 500, END, path)
    return path


@pytest.fixture(scope="session")
def both(tokenizer: Path) -> tuple[Fastokens, Tokenizers]:
    return Fastokens(tokenizer), Tokenizers(tokenizer)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text() | st.text("ab \n1中文，。é'<|>"), max_size=6))
def test_both_engines_give_the_same_ids(both: tuple[Fastokens, Tokenizers], texts: list[str]) -> None:
    fast, reference = (engine.encode(texts) for engine in both)
    assert fast.tokens.tolist() == reference.tokens.tolist()
    assert fast.lengths.tolist() == reference.lengths.tolist()


def test_the_fast_one_is_taken_where_both_agree(tokenizer: Path) -> None:
    assert load_encoder(tokenizer, sample=TEXTS).engine == "fastokens"


def test_a_model_that_fastokens_does_not_know_goes_by_tokenizers(tmp_path: Path) -> None:
    words = {"[UNK]": 0, "a": 1, "##b": 2}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": words}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"version": "1.0", "model": {**model, **WORDPIECE}, "added_tokens": []}))
    chosen = load_encoder(path)
    assert (chosen.engine, chosen.encode(["ab"]).tokens.tolist()) == ("tokenizers", [1, 2])


WORDPIECE = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}


def test_an_engine_that_differs_once_is_not_used(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Fastokens.encode

    def wrong(self: Fastokens, texts: list[str]) -> Encoded:
        ids = right(self, texts)
        return ids._replace(tokens=ids.tokens[::-1]) if "黄河" in texts[0] else ids

    monkeypatch.setattr(Fastokens, "encode", wrong)
    assert load_encoder(tokenizer).engine == "fastokens"
    assert load_encoder(tokenizer, sample=TEXTS).engine == "tokenizers"


@pytest.mark.parametrize("engine", ["fastokens", "tokenizers"])
def test_a_special_token_that_a_text_spells_is_text(tokenizer: Path, engine: Any) -> None:
    chosen = load_encoder(tokenizer, engine)
    assert chosen.token(END) == 0
    assert 0 not in chosen.encode([f"a{END}b"]).tokens


@pytest.mark.parametrize("engine", ["fastokens", "tokenizers"])
def test_odd_texts(tokenizer: Path, engine: Any) -> None:
    chosen = load_encoder(tokenizer, engine)
    texts = ["", "\ud800x", "\x00", "好"]
    assert chosen.encode(["\ud800x"]).tokens.tolist() == chosen.encode(["\ufffdx"]).tokens.tolist()
    assert chosen.encode(texts).lengths.tolist()[0] == 0
    assert chosen.encode([]).lengths.tolist() == []


def test_each_document_is_closed(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "MOST_TEXTS", 2)
    chosen = load_encoder(tokenizer)
    parts = list(encode_documents(chosen, ["a b", "", "c"], 0))
    tokens = np.concatenate([part.tokens for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    assert tokens[np.cumsum(lengths) - 1].tolist() == [0, 0, 0]
    assert lengths.tolist() == [*(chosen.encode(["a b", "", "c"]).lengths + 1)]
    assert np.count_nonzero(tokens == 0) == 3


@settings(deadline=None)
@given(st.lists(st.integers(0, 3_000_000), max_size=9))
def test_groups_keep_order_and_bound(sizes: list[int]) -> None:
    texts = ["x" * size for size in sizes]
    found = list(groups(texts))
    assert [text for group in found for text in group] == texts
    assert all(len(group) == 1 or sum(map(len, group)) <= encoder.MOST_CHARACTERS for group in found)


def test_a_file_that_is_no_tokenizer_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(BadInput, match="is not a tokenizer"):
        load_encoder(tmp_path / "x.json")
