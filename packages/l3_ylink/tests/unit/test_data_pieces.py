"""Pieces, anchors and addresses: odd texts, the compiled loops against plain ones, rules of spelling."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.batch import Batch, Document
from l3_ylink.datakit.purify.pieces import Unit, piece_hashes, piece_hashes_in_python, pieces_of
from l3_ylink.datakit.purify.substrings import anchors, sizes
from l3_ylink.datakit.purify.urls import DomainSet, canonical, host_of, read_domains, site_of
from l3_ylink.datakit.quality.classifier import Training, train
from l3_ylink.datakit.quality.labelled import Example
from l3_ylink.datakit.quality.ngram_training import train as train_ngrams
from l3_ylink.datakit.quality.units import split_units
from l3_ylink.datakit.recipe import parse_recipe

ODD = st.text(alphabet="aB 中。.!?\n\r\0\ud800\u3000'", max_size=60)


@settings(deadline=None)
@given(st.lists(ODD, max_size=5), st.sampled_from(["line", "paragraph", "sentence"]), st.integers(1, 3))
def test_pieces_lie_in_their_text_and_do_not_overlap(texts: list[str], unit: Unit, least: int) -> None:
    units = split_units(texts)
    for text, pieces in zip(texts, pieces_of(units, unit, least), strict=False):
        end = 0
        for piece in pieces.tolist():
            assert end <= piece[1] < piece[2] <= len(text)
            assert len(split_units([text[piece[1] : piece[2]]]).start) >= least
            end = piece[2]


def test_lines_are_the_lines_and_equal_words_are_equal() -> None:
    text = "One two.\n\n  one, TWO!\nthree"
    (found,) = pieces_of(split_units([text]), "line", 1)
    assert [text[start:end] for _, start, end in found.tolist()] == ["One two.\n", "  one, TWO!\n", "three"]
    assert found["hash"][0] == found["hash"][1] != found["hash"][2]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(0, 19))
def test_the_compiled_hash_is_the_plain_one(values: list[int], first: int) -> None:
    hashes = np.asarray(values, np.uint64)
    start = np.asarray([0, min(first, len(values))], np.int64)
    count = np.asarray([len(values), len(values) - start[1]], np.int64)
    assert piece_hashes(hashes, start, count).tolist() == piece_hashes_in_python(hashes, start, count)


def test_the_hash_of_a_piece_stays_what_it_was() -> None:
    """Golden: stored columns depend on it."""
    values = np.asarray([1, 2, 3], np.uint64)
    found = piece_hashes(values, np.asarray([0, 1], np.int64), np.asarray([3, 2], np.int64))
    assert found.tolist() == [11111016086203110156, 12686692678866068389]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "天"]), min_size=12, max_size=12), ODD, ODD)
def test_texts_that_share_a_run_share_an_anchor(run: list[str], before: str, after: str) -> None:
    shared = " ".join(run)
    texts = [f"{before} {shared} {after}", f"{after}\n{shared}\n{before}", shared]
    found = [set(some["hash"].tolist()) for some in anchors(split_units(texts), 12)]
    assert found[0] & found[2]
    assert found[1] & found[2]
    assert sum(sizes(12)) == 13


STEPS: list[dict[str, Any]] = [
    {"step": "extract"},
    {"step": "language"},
    {"step": "perplexity", "models": {"zh": "ngrams", "en": "ngrams", "other": "ngrams"}},
    {"step": "classify", "models": [{"name": "worth", "path": "model", "languages": ["zh"]}]},
    {"step": "sensitive"},
    {"step": "urls", "domains": ["bad.example"], "words": ["casino"], "only": ["example"]},
    {"step": "url_duplicates"},
    {"step": "boilerplate"},
    {"step": "lines", "unit": "sentence"},
    {"step": "substrings", "least_units": 10},
    {"step": "decontaminate", "against": [{"name": "exam", "path": "exam.jsonl"}]},
]


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["a"],
        ["中"],
        ["\n\n", "\0", "\ud800", "..."],
        ["word " * 5_000, "中文" * 5_000, "x" * 30_000],
    ],
)
def test_every_step_measures_odd_texts(tmp_path: Path, texts: list[str]) -> None:
    words = ["good words here", "bad things there"]
    rows = [Example(f"{words[n % 2]} {n}", ("good", "bad")[n % 2]) for n in range(60)]
    train(rows, tmp_path / "model", Training(positive="good", bits=10))
    train_ngrams(lambda: words, tmp_path / "ngrams", order=2)
    (tmp_path / "exam.jsonl").write_text(json.dumps({"question": "is this the question that was asked"}))
    sources = [{"name": "all", "licence": "CC0-1.0"}]
    recipe = parse_recipe({"name": "odd", "sources": sources, "steps": STEPS})
    batch = Batch([Document(str(n), "all", "a/b", "text", text=text) for n, text in enumerate(texts)])
    for step in recipe.steps:
        step.prepare(tmp_path)
        step.measure(batch)
    assert {len(column) for column in batch.columns.values()} == {len(texts)}


@pytest.mark.parametrize(
    ("url", "spelt"),
    [
        ("HTTP://WWW.Site.Example:80/A/?b=2&a=1&utm_source=x#top", "site.example/A?a=1&b=2"),
        ("https://site.example", "site.example"),
        ("https://site.example:8443/", "site.example:8443"),
        ("https://例え.example/页?查=1", "例え.example/页?%E6%9F%A5=1"),
        ("not an address", ""),
        ("http://[broken", ""),
        ("http://h:99999/", ""),
        ("", ""),
    ],
)
def test_one_page_has_one_spelling(url: str, spelt: str) -> None:
    assert canonical(url) == spelt


def test_the_site_is_the_host_or_the_first_folder() -> None:
    assert site_of("https://www.Site.Example/x", "a/b") == "site.example"
    assert site_of("", "mirror/page.html") == "mirror"
    assert site_of("", "page.html") == ""
    assert host_of("http://[broken") == ""


def test_a_domain_takes_all_below_it() -> None:
    domains = DomainSet(["bad.example", "co.uk"])
    assert domains.match("a.b.bad.example") == "bad.example"
    assert domains.match("notbad.example") == ""
    assert domains.match("x.co.uk") == "co.uk"
    assert DomainSet([]).match("x") == ""


def test_a_broken_block_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("*.One.example\n127.0.0.1 www.two.example\n# remark\n")
    assert read_domains(tmp_path / "list") == ["one.example", "two.example"]
    (tmp_path / "list").write_text("one.example\nhttp://two.example/\n")
    with pytest.raises(BadInput, match="line 2 is no domain"):
        read_domains(tmp_path / "list")
