"""Parts of generation by themselves: what an answer holds, likeness, passages, cache and budget."""

from __future__ import annotations

import json
import sqlite3
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput, Unavailable
from l3_ylink.datakit.datagen.base import Made
from l3_ylink.datakit.datagen.caller import Budget, Caller, Spent
from l3_ylink.datakit.datagen.client import Ask, Busy, ModelSpec, Said
from l3_ylink.datakit.datagen.journal import Journal
from l3_ylink.datakit.datagen.parse import code_blocks, json_in, score_in, spoken
from l3_ylink.datakit.datagen.questions import cited, passages
from l3_ylink.datakit.datagen.recipe import load_generate_recipe, parse_generate_recipe
from l3_ylink.datakit.datagen.similar import Pool, rouge_l, units_of
from l3_ylink.datakit.fileqa.blocks import Span
from l3_ylink.datakit.fileqa.render import Rendered

SPEC = ModelSpec(url="http://127.0.0.1:1/v1", name="m")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(), values) | st.lists(values, min_size=1),
    st.text("abc \n.!"),
    st.text("abc \n.!"),
)
def test_json_is_found_among_other_words(value: object, before: str, after: str) -> None:
    assert json_in(f"{before}{json.dumps(value)}{after}") == value
    assert json_in(f"{before}\n```json\n{json.dumps(value, indent=2)}\n```\n{after}") == value


@given(st.text(max_size=200))
def test_no_text_breaks_the_reading_of_answers(text: str) -> None:
    json_in(text)
    code_blocks(text)
    score_in(text, 10)
    assert spoken(f"<think>{text.replace('</think>', '')}</think>  so") == "so"


def test_scores_and_code_are_read_as_people_write_them() -> None:
    assert score_in('{"score": 8.5, "reason": "x"}', 10) == 8.5
    assert score_in("Score: 7/10", 10) == 7
    assert score_in("评分：6 分", 10) == 6
    assert score_in('{"score": 11}', 10) is None
    assert score_in('{"score": true}', 10) is None
    assert score_in("good", 10) is None
    assert code_blocks("a\n```python\nx = 1\n```\nb\n```js\ny\n```\n```\nz = 2\n```") == [
        "x = 1\n",
        "z = 2\n",
    ]
    assert code_blocks("```py\nnever closed") == ["never closed"]
    assert json_in("[" * 100_000) is None


def slow_rouge(one: list[str], other: list[str]) -> float:
    row = [0] * (len(other) + 1)
    for unit in one:
        before = row[:]
        for place, known in enumerate(other):
            row[place + 1] = before[place] + 1 if unit == known else max(before[place + 1], row[place])
    return 2 * row[-1] / (len(one) + len(other)) if one and other else 0.0


@given(st.lists(st.sampled_from("abcd"), max_size=80), st.lists(st.sampled_from("abcd"), max_size=80))
def test_rouge_l_is_the_longest_common_subsequence(one: list[str], other: list[str]) -> None:
    assert rouge_l(one, other) == pytest.approx(slow_rouge(one, other))


def test_likeness_by_words_and_by_characters_of_chinese() -> None:
    """The value of the first pair: LCS 5 (police killed the gunman -> 'police the gunman'), Lin 2004, 3.1."""
    assert rouge_l(units_of("police killed the gunman"), units_of("police kill the gunman")) == pytest.approx(
        3 / 4
    )
    assert units_of("写一首诗，ABC x_1") == ["写", "一", "首", "诗", "abc", "x_1"]
    pool = Pool(["写一首关于月亮的诗", "List five uses of rope"])
    assert pool.nearest("写一首关于太阳的诗", 0.7)[1] == "写一首关于月亮的诗"
    assert pool.nearest("Explain how tides work", 0.7) == (0.0, "")


@given(st.text("ab. \n。", max_size=3_000), st.integers(200, 700))
def test_passages_together_are_the_text(text: str, longest: int) -> None:
    found = list(passages(text, longest, 1))
    assert all(0 < end - start <= longest for start, end in found)
    assert all(first[1] <= second[0] for first, second in pairwise(found))
    kept = "".join(text[start:end] for start, end in found)
    assert "".join(kept.split()) == "".join(text.split())


def test_a_citation_is_narrowed_to_characters_only_where_the_file_holds_the_same_ones() -> None:
    text = Rendered(
        "one two three", (Span(0, 8, page=1, chars=(100, 108)), Span(8, 13, page=2, chars=(7, 90)))
    )
    assert list(cited(text, 4, 13)) == [
        Span(4, 8, page=1, chars=(104, 108)),
        Span(8, 13, page=2, chars=(7, 90)),
    ]


class Counting:
    """A model that counts, and fails as it is told."""

    def __init__(self, faults: int = 0) -> None:
        self.count, self.faults, self.lock = 0, faults, threading.Lock()

    def ask(self, ask: Ask) -> Said:
        with self.lock:
            self.count += 1
            if self.faults:
                self.faults -= 1
                raise Busy("busy", 3.0)
        return Said(f"{ask.seed}", 7, 2)

    def close(self) -> None:
        pass


def test_the_same_question_is_asked_once_and_the_cache_outlives_the_process(tmp_path: Path) -> None:
    model = Counting()
    for _ in range(3):
        caller = Caller(SPEC, tmp_path / "c.sqlite", model=model)
        assert caller.ask([{"role": "user", "content": "x"}], seed=5) == "5"
        assert caller.cost[:3] == (1, 7, 2)
        caller.close()
    assert model.count == 1
    caller = Caller(SPEC, tmp_path / "c.sqlite", model=model)
    assert caller.ask([{"role": "user", "content": "x"}], seed=6) == "6"
    caller.close()
    other = Caller(SPEC.model_copy(update={"name": "n"}), tmp_path / "c.sqlite", model=model)
    other.ask([{"role": "user", "content": "x"}], seed=6)
    other.close()
    assert model.count == 3


def test_waits_grow_and_end(tmp_path: Path) -> None:
    waits: list[float] = []
    caller = Caller(SPEC, tmp_path / "c.sqlite", model=Counting(faults=4), sleep=waits.append)
    assert caller.ask([{"role": "user", "content": "x"}]) == "0"
    assert waits == [3.0, 3.0, 3.0, 4.0]
    caller.model = Counting(faults=99)
    with pytest.raises(Unavailable, match="does not answer"):
        caller.ask([{"role": "user", "content": "y"}])
    caller.close()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 400), st.integers(1, 8))
def test_no_number_of_threads_goes_beyond_the_budget(
    tmp_path_factory: pytest.TempPathFactory, requests: int, tokens: int, threads: int
) -> None:
    model = Counting()
    file = tmp_path_factory.mktemp("budget") / "c.sqlite"
    caller = Caller(SPEC, file, Budget(requests=requests, tokens=tokens * 10), model=model)

    def work(first: int) -> None:
        for seed in range(first, first + 6):
            try:
                caller.ask([{"role": "user", "content": "x"}], seed=seed, max_tokens=20)
            except Spent:
                return

    running = [threading.Thread(target=work, args=(100 * number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert model.count == caller.cost.requests <= requests
    assert caller.cost.prompt + caller.cost.completion <= tokens * 10
    caller.close()
    with sqlite3.connect(file) as base:
        assert base.execute("SELECT count(*) FROM answers").fetchone()[0] == model.count
    base.close()


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_a_journal_that_was_cut_anywhere_holds_the_lines_that_were_finished(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    file = tmp_path_factory.mktemp("journal") / "j.jsonl"
    journal = Journal(file)
    ends = []
    for number in range(5):
        journal.note(f"k{number}", [Made(f"k{number}", [], {"n": number}, "reason", "中" * number)])
        ends.append(file.stat().st_size)
    journal.close()
    kept = cut % (ends[-1] + 1)
    file.write_bytes(file.read_bytes()[:kept])
    again = Journal(file)
    whole = sum(end <= kept for end in ends)
    assert list(again.done) == [f"k{number}" for number in range(whole)]
    again.note("new", [])
    again.close()
    last = Journal(file)
    assert list(last.done) == [*(f"k{number}" for number in range(whole)), "new"]
    last.close()


GOOD = {
    "name": "x",
    "licence": "CC0-1.0",
    "model": {"url": "http://h/v1", "name": "m"},
    "method": {"method": "evolve", "seeds": "s.txt"},
}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"method": {"method": "evolv", "seeds": "s"}}, "method"),
        ({"model": {"name": "m"}}, "url or folder"),
        ({"model": {"url": "http://h/v1", "folder": "f"}}, "url or folder"),
        ({"rows": 0}, "rows"),
        ({"budget": {"money": 0}}, "money"),
        ({"speed": 1}, "speed"),
        ({"language": "fr"}, "language"),
    ],
)
def test_a_recipe_says_which_field_is_wrong(change: dict[str, object], word: str, tmp_path: Path) -> None:
    assert parse_generate_recipe(GOOD).rows == 100
    with pytest.raises(BadInput, match=word):
        parse_generate_recipe({**GOOD, **change})
    (tmp_path / "r.yaml").write_text("a: [")
    with pytest.raises(BadInput, match="YAML"):
        load_generate_recipe(tmp_path / "r.yaml")


def test_only_what_no_answer_depends_on_may_change() -> None:
    first = parse_generate_recipe(GOOD).digest()
    assert (
        parse_generate_recipe({**GOOD, "rows": 5, "parallel": 1, "budget": {"requests": 9}}).digest() == first
    )
    assert parse_generate_recipe({**GOOD, "seed": 1}).digest() != first
