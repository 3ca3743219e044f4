"""Kneser-Ney models against an implementation by the book, and as probabilities."""

import io
import itertools
import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput, NotFound
from l3_ylink.datakit.quality.arpa import write_arpa
from l3_ylink.datakit.quality.kneser_ney import FALLBACK, discounts
from l3_ylink.datakit.quality.ngram_training import train
from l3_ylink.datakit.quality.perplexity import Model
from l3_ylink.datakit.quality.sentences import sentence_starts, words_of
from l3_ylink.datakit.quality.units import split_units

Ngram = tuple[str, ...]


class ByTheBook:
    """Chen and Goodman's interpolated modified Kneser-Ney with dictionaries: slow and plain."""

    def __init__(self, sentences: list[list[str]], order: int) -> None:
        self.order = order
        padded = [["<s>", *sentence, "</s>"] for sentence in sentences]
        seen = {
            n: Counter(
                tuple(sentence[at : at + n]) for sentence in padded for at in range(len(sentence) - n + 1)
            )
            for n in range(1, order + 1)
        }
        self.counts: dict[int, dict[Ngram, int]] = {order: dict(seen[order])}
        for n in range(order - 1, 0, -1):
            left = Counter(ngram[1:] for ngram in seen[n + 1])
            self.counts[n] = {
                ngram: (count if ngram[0] == "<s>" else left[ngram]) for ngram, count in seen[n].items()
            }
        self.counts[1].pop(("<s>",), None)
        self.words = {word for sentence in padded for word in sentence} | {"<unk>"}
        self.cuts = {n: self._discounts(n) for n in self.counts}

    def _discounts(self, n: int) -> tuple[float, float, float]:
        of = Counter(self.counts[n].values())
        if not all(of[count] for count in (1, 2, 3, 4)):
            return FALLBACK
        y = of[1] / (of[1] + 2 * of[2])
        found = [count - (count + 1) * y * of[count + 1] / of[count] for count in (1, 2, 3)]
        inside = all(0 <= value <= count for count, value in enumerate(found, 1))
        return (found[0], found[1], found[2]) if inside else FALLBACK

    def probability(self, context: Ngram, word: str) -> float:
        n = len(context) + 1
        if n == 1 and word == "<s>":
            return 0.0
        mine = {ngram[-1]: count for ngram, count in self.counts[n].items() if ngram[:-1] == context}
        lower = self.probability(context[1:], word) if n > 1 else 1 / (len(self.words) - 1)
        if not mine:
            return lower
        total = sum(mine.values())
        cut = {word: self.cuts[n][min(count, 3) - 1] for word, count in mine.items()}
        rest = sum(cut.values()) / total
        return max(mine.get(word, 0) - cut.get(word, 0), 0) / total + rest * lower

    def log10(self, sentence: list[str]) -> float:
        padded = ["<s>", *(word if word in self.words else "<unk>" for word in sentence), "</s>"]
        return sum(
            math.log10(self.probability(tuple(padded[max(0, at - self.order + 1) : at]), padded[at]))
            for at in range(1, len(padded))
        )


def sentences_of(text: str) -> list[list[str]]:
    units = split_units([text])
    found: list[list[str]] = []
    words = words_of(units, np.arange(len(units.start)))
    for starts, word in zip(sentence_starts(units).tolist(), words, strict=True):
        if starts:
            found.append([])
        found[-1].append(word)
    return found


def made_up(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    words = ["the", "cat", "saw", "a", "dog", "我", "们", "看", "见", "猫", "。", "ran", "fast", "and"]
    return [
        " ".join(draw.choices(words, weights=range(len(words), 0, -1), k=draw.randint(1, 9)))
        for _ in range(count)
    ]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [3, 60])
def test_it_is_kneser_ney_by_the_book(tmp_path: Path, order: int, count: int) -> None:
    texts = made_up(count)
    model = train(lambda: texts, tmp_path, order=order)
    book = ByTheBook([sentence for text in texts for sentence in sentences_of(text)], order)
    for text in [*made_up(20, seed=1), "never seen 词 words", "the the the the"]:
        expected = sum(book.log10(sentence) for sentence in sentences_of(text))
        assert model.score(split_units([text])).log10[0] == pytest.approx(expected, rel=1e-5)


def test_discounts_are_those_of_the_formula() -> None:
    # n1..n4 = 10, 5, 3, 2: Y = 1/2; D = 1-2Y*5/10, 2-3Y*3/5, 3-4Y*2/3
    found = discounts(np.array([0, 10, 5, 3, 2, 7]))
    assert found == pytest.approx((0.5, 1.1, 1.6666667))
    assert discounts(np.array([0, 10, 0, 0, 0, 0])) == FALLBACK


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.text(alphabet="ab 中文。\n", min_size=1, max_size=12), min_size=1, max_size=12),
    st.integers(2, 4),
)
def test_probabilities_add_up_to_one_also_when_ngrams_are_left_out(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], order: int
) -> None:
    if not any(len(split_units([text]).start) for text in texts):
        return
    folder = tmp_path_factory.mktemp("model")
    model = train(lambda: texts, folder, order=order, most=3)
    stream = folder / "model.arpa"
    write_arpa(model, stream)
    table = read_arpa(stream.read_text("utf-8"))
    words = [word for (word,) in table[1] if word != "<s>"]
    for context in [(), *table[1], *table[2]]:
        if context and (context[-1] == "</s>" or len(context) >= order):
            continue
        assert sum(10 ** arpa_score(table, context, word) for word in words) == pytest.approx(1, abs=1e-4)


def read_arpa(text: str) -> dict[int, dict[Ngram, tuple[float, float]]]:
    """An ARPA reader of the test's own; it also checks the counts of the header."""
    table: dict[int, dict[Ngram, tuple[float, float]]] = {}
    promised = {}
    n = 0
    for line in io.StringIO(text).read().split("\n"):
        if line.startswith("ngram "):
            order, _, count = line.removeprefix("ngram ").partition("=")
            promised[int(order)] = int(count)
        elif line.startswith("\\") and line.endswith("-grams:"):
            n = int(line[1:].split("-")[0])
            table[n] = {}
        elif "\t" in line:
            parts = line.split("\t")
            table[n][tuple(parts[1].split(" "))] = (float(parts[0]), float(parts[2]) if len(parts) > 2 else 0)
    assert {n: len(rows) for n, rows in table.items()} == promised
    return table


def arpa_score(table: dict[int, dict[Ngram, tuple[float, float]]], context: Ngram, word: str) -> float:
    ngram = (*context, word)
    if ngram in table.get(len(ngram), {}):
        return table[len(ngram)][ngram][0]
    return table[len(context)].get(context, (0, 0))[1] + arpa_score(table, context[1:], word)


def test_counting_on_disk_gives_the_model_of_counting_in_memory(tmp_path: Path) -> None:
    texts = made_up(300)
    train(lambda: texts, tmp_path / "memory", order=3)
    train(lambda: texts, tmp_path / "disk", order=3, rows=50)
    for path in sorted((tmp_path / "memory").iterdir()):
        assert (tmp_path / "disk" / path.name).read_bytes() == path.read_bytes()
    assert len(list((tmp_path / "disk").iterdir())) == len(list((tmp_path / "memory").iterdir()))


def test_the_most_frequent_ngrams_and_words_stay(tmp_path: Path) -> None:
    texts = ["the cat sat"] * 5 + ["a rare thing"] + ["the dog sat"] * 3
    model = train(lambda: texts, tmp_path, order=2, vocabulary=4, most=6)
    assert set(model.vocabulary()[:3]) == {"the", "sat", "cat"}
    assert len(model.vocabulary()) == 4
    assert model.about["ngrams"][1] <= 6
    scores = model.score(split_units(["the cat sat", "a rare thing", ""]))
    assert scores.perplexity[0] < scores.perplexity[1]
    assert scores.unknown.tolist()[0] == 0
    assert scores.unknown.tolist()[1] >= 2
    assert (scores.perplexity[2], scores.words[2]) == (0.0, 0)


def test_clean_text_is_likelier_than_its_words_shuffled(tmp_path: Path) -> None:
    clean = ["我们在研究自然语言处理的方法。", "数据的质量决定了模型的能力。"] * 30
    model = train(lambda: clean, tmp_path, order=3)
    shuffled = "".join(random.Random(2).sample(list(clean[0]), len(clean[0])))
    scores = model.score(split_units([clean[0], shuffled]))
    assert scores.perplexity[0] * 2 < scores.perplexity[1]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two three.Four", 2),  # a mark inside a word or an address ends nothing
        ("第一句。第二句！第三句", 3),
        ("line\n\nline\n", 2),
        ("...\n。", 0),
        ("see 3.14 and e.g. this", 2),
    ],
)
def test_sentences_end_at_marks_and_lines(text: str, count: int) -> None:
    assert int(sentence_starts(split_units([text])).sum()) == count


def test_texts_of_a_batch_do_not_touch_each_other(tmp_path: Path) -> None:
    texts = made_up(40)
    model = train(lambda: texts, tmp_path, order=3)
    together = model.score(split_units(texts))
    alone = [model.score(split_units([text])).log10[0] for text in texts]
    assert together.log10 == pytest.approx(alone)
    assert list(itertools.chain(together.words)) == [
        sum(len(sentence) + 1 for sentence in sentences_of(text)) for text in texts
    ]


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no model here"):
        Model(tmp_path)
    with pytest.raises(BadInput, match="no words"):
        train(lambda: ["...", ""], tmp_path / "m")
    with pytest.raises(BadInput, match="1 to 5"):
        train(lambda: ["a"], tmp_path / "m", order=9)
    (tmp_path / "perplexity.json").write_text('{"schema": "other"}')
    with pytest.raises(BadInput, match="another version"):
        Model(tmp_path)
