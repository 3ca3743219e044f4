"""Steps that take pieces out of texts, in whole runs: what is exported, and why."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.explain import explain, whatif
from l3_ylink.datakit.purify.contamination_report import contamination_report
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe

Row = dict[str, str]


def run(folder: Path, rows: Sequence[Row], *steps: dict[str, Any], **how: Any) -> dict[str, str]:
    """The exported texts by id."""
    source = folder / "in"
    source.mkdir(parents=True, exist_ok=True)
    (source / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    value = {
        "name": "removal",
        "sources": [{"name": "all", "licence": "CC0-1.0", "include": ["*.jsonl"]}],
        "steps": [{"step": "extract"}, *steps],
    }
    run_recipe(parse_recipe(value), input_folder=source, out=folder / "out", **how)
    found = {}
    for path in sorted((folder / "out/text").glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            found[row["id"].rpartition("#")[2]] = row["text"]
    return found


def fate(folder: Path, row: str) -> tuple[str | None, str | None]:
    found = explain(folder / "out", f"#{row}")
    return found.step, found.reason


def words(seed: int, count: int) -> str:
    draw = random.Random(seed)
    return " ".join("".join(draw.choices("abcdefghij", k=draw.randint(3, 8))) for _ in range(count))


LINE = "This one sentence of more than ten words is on several pages of it"


def test_a_line_stays_where_it_comes_first(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": f"{words(1, 12)}\n{LINE}.\n{words(2, 12)}"},
        {"id": "b", "text": f"{words(3, 12)}\n  {LINE.upper()}!\n{words(4, 12)}\nshort\nshort"},
        {"id": "c", "text": f"{LINE}\n"},
    ]
    kept = run(tmp_path, rows, {"step": "lines"})
    assert kept["a"] == rows[0]["text"]
    assert kept["b"] == f"{words(3, 12)}\n{words(4, 12)}\nshort\nshort"
    assert "c" not in kept
    assert fate(tmp_path, "c") == ("lines", "mostly_seen_before")
    found = whatif(tmp_path / "out", {"lines.copies": 3})
    assert found.kept_after == 3


def test_paragraphs_and_sentences_are_pieces_too(tmp_path: Path) -> None:
    paragraph = f"{words(5, 8)}\n{words(6, 8)}"
    rows = [
        {"id": "a", "text": f"{words(1, 12)}\n\n{paragraph}\n\n{words(2, 12)}"},
        {"id": "b", "text": f"{words(3, 12)}\n\n{paragraph}\n\n{words(4, 12)}"},
    ]
    kept = run(tmp_path / "p", rows, {"step": "lines", "unit": "paragraph"})
    assert kept["b"].split() == f"{words(3, 12)} {words(4, 12)}".split()
    said = "我们在这里再说一遍同样的一句话，没有别的意思。"
    rows = [
        {"id": "a", "text": f"第一页说的是甲乙丙丁各不相同。{said}完了就是完了没有更多。"},
        {"id": "b", "text": f"第二页说的是子丑寅卯完全另外。{said}到此为止再也没有什么。"},
    ]
    kept = run(tmp_path / "s", rows, {"step": "lines", "unit": "sentence", "least_units": 8})
    assert kept["b"] == "第二页说的是子丑寅卯完全另外。到此为止再也没有什么。"


def test_poems_and_dialogue_keep_their_short_lines(tmp_path: Path) -> None:
    poem = "白日依山尽，\n黄河入海流。\n欲穷千里目，\n更上一层楼。"
    rows = [{"id": str(n), "text": f"{words(n, 15)}\n{poem}\n“好。”\n“好。”"} for n in range(3)]
    kept = run(tmp_path, rows, {"step": "lines"})
    assert [kept[str(n)] for n in range(3)] == [row["text"] for row in rows]


def page(site: str, number: int) -> Row:
    menu = "Home\nProducts\nAbout us"
    return {
        "id": f"{site}{number}",
        "url": f"https://www.{site}.example/p/{number}",
        "text": f"{menu}\n{words(1000 * len(site) + number, 30)}\nCopyright 2026 {site}",
    }


def test_lines_that_many_pages_of_a_site_share_go_everywhere_on_it(tmp_path: Path) -> None:
    rows = [page("one", n) for n in range(8)] + [page("other", n) for n in range(3)]
    kept = run(tmp_path, rows, {"step": "boilerplate"})
    assert kept["one0"].strip() == words(3000, 30)
    assert kept["other0"] == rows[8]["text"]  # three pages say nothing yet
    assert whatif(tmp_path / "out", {"boilerplate.least_pages": 3}).kept_after == 11


def test_a_line_of_few_pages_of_a_large_site_is_content(tmp_path: Path) -> None:
    rows = [page("one", n) for n in range(60)]
    for row in rows[:5]:
        row["text"] += "\nA notice on five pages only"
    kept = run(tmp_path, rows, {"step": "boilerplate"})
    assert "A notice on five pages only" in kept["one0"]
    assert "Products" not in kept["one0"]


def test_a_page_of_boilerplate_alone_is_dropped(tmp_path: Path) -> None:
    rows = [page("one", n) for n in range(8)]
    rows[3]["text"] = "Home\nProducts\nAbout us"
    kept = run(tmp_path, rows, {"step": "boilerplate"})
    assert len(kept) == 7
    assert fate(tmp_path, "one3") == ("boilerplate", "mostly_boilerplate")


def test_an_exact_run_goes_wherever_it_begins(tmp_path: Path) -> None:
    shared = words(7, 60)
    rows = [
        {"id": "a", "text": f"{words(1, 80)} {shared} {words(2, 80)}"},
        {"id": "b", "text": f"{words(3, 33)} {shared.upper()}, {words(4, 47)}"},
        {"id": "c", "text": f"{words(5, 33)} {' '.join(shared.split()[:49])} {words(6, 47)}"},
        {"id": "d", "text": shared},
    ]
    kept = run(tmp_path, rows, {"step": "substrings", "least_units": 50})
    assert kept["a"] == rows[0]["text"]
    assert kept["b"].split() == [*words(3, 33).split(), ",", *words(4, 47).split()]
    assert kept["c"] == rows[2]["text"]  # 49 words are not 50
    assert fate(tmp_path, "d") == ("substrings", "mostly_repeated_run")


def test_a_shorter_match_before_hides_no_longer_one(tmp_path: Path) -> None:
    """The first text shares only the middle of the run: the second and third share all of it."""
    shared = words(7, 50).split()
    rows = [
        {"id": "a", "text": f"{words(1, 80)} {' '.join(shared[10:40])} {words(2, 80)}"},
        {"id": "b", "text": f"{words(3, 80)} {' '.join(shared)} {words(4, 80)}"},
        {"id": "c", "text": f"{words(5, 80)} {' '.join(shared)} {words(6, 80)}"},
    ]
    kept = run(tmp_path, rows, {"step": "substrings", "least_units": 50})
    assert kept["b"] == rows[1]["text"]
    assert kept["c"].split() == f"{words(5, 80)} {words(6, 80)}".split()


TEXTS = st.lists(
    st.sampled_from(["天", "地", "玄黄", "宇宙洪荒日月盈", "寒来暑往秋收冬藏闰余成岁"]), max_size=14
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, min_size=1, max_size=4), st.integers(10, 14))
def test_every_repeated_run_goes_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], least: int
) -> None:
    rows = [{"id": str(number), "text": "".join(text)} for number, text in enumerate(texts)]
    expected = {}
    seen: set[str] = set()
    for row in rows:
        text = row["text"]
        gone = [False] * len(text)
        for start in range(len(text) - least + 1):
            if text[start : start + least] in seen:
                gone[start : start + least] = [True] * least
            seen.add(text[start : start + least])
        left = "".join(letter for letter, cut in zip(text, gone, strict=True) if not cut)
        if left:
            expected[row["id"]] = left
    folder = tmp_path_factory.mktemp("run")
    if not any(row["text"] for row in rows):
        return
    kept = run(folder, rows, {"step": "substrings", "least_units": least, "most_cut": 1.0})
    assert {name: text for name, text in kept.items() if text} == expected


def test_pages_go_by_domain_word_and_list(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "url": "https://news.example.com/2026/a", "text": words(1, 20)},
        {"id": "b", "url": "http://x.bad.example:8080/b", "text": words(2, 20)},
        {"id": "c", "url": "https://good.example/casino-bonus", "text": words(3, 20)},
        {"id": "d", "url": "https://ok.bad.example/d", "text": words(4, 20)},
        {"id": "e", "text": words(5, 20)},
        {"id": "f", "url": "https://notbad.example/", "text": words(6, 20)},
        {"id": "g", "url": "http://[broken", "text": words(7, 20)},
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/hosts.list").write_text("# a list\n0.0.0.0 bad.example # note\n\n")
    step = {"step": "urls", "lists": ["hosts.list"], "words": ["casino"], "allow": ["ok.bad.example"]}
    kept = run(tmp_path, rows, step)
    assert sorted(kept) == ["a", "d", "e", "f", "g"]
    assert fate(tmp_path, "b") == ("urls", "url_domain")
    assert fate(tmp_path, "c") == ("urls", "url_word")
    assert explain(tmp_path / "out", "#b").checks[-1].value == "domain:bad.example"


def test_the_newest_of_pages_with_one_address_stays(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "url": "http://www.site.example/page/?utm_source=x", "date": "2025-01-01"},
        {"id": "b", "url": "https://site.example/page#top", "date": "2026-03-01T10:00:00Z"},
        {"id": "c", "url": "https://site.example/page?b=2&a=1"},
        {"id": "d", "url": "https://site.example/page?a=1&b=2"},
        {"id": "e"},
        {"id": "f"},
    ]
    rows = [{**row, "text": words(number, 9)} for number, row in enumerate(rows)]
    assert sorted(run(tmp_path, rows, {"step": "url_duplicates"})) == ["b", "c", "e", "f"]
    assert json.loads((tmp_path / "out/text/dataset-manifest.json").read_text())["rows"] == 4


ALL = (
    {"step": "exact"},
    {"step": "boilerplate"},
    {"step": "lines"},
    {"step": "substrings", "least_units": 12},
)


def test_the_same_bytes_for_any_number_of_blocks_and_workers(tmp_path: Path) -> None:
    draw = random.Random(9)
    shared = [words(n, 20) for n in range(10)]
    rows = [
        {
            "id": str(n),
            "url": f"https://s{n % 3}.example/{n}",
            "text": "\n".join([words(100 + n, 15), *draw.sample(shared, 3)]),
        }
        for n in range(80)
    ]
    one = run(tmp_path / "one", rows, *ALL)
    many = run(tmp_path / "many", rows, *ALL, block_bytes=3_000, workers=2)
    assert one == many
    assert sum(map(len, one.values())) < 0.7 * sum(len(row["text"]) for row in rows)


def test_every_evaluation_item_says_where_it_was_found(tmp_path: Path) -> None:
    question, other = words(50, 30), words(51, 30)
    (tmp_path / "in").mkdir()
    items = [
        {"id": "q1", "question": question},
        {"id": "q2", "question": other},
        {"id": "q3", "question": "ok?"},
    ]
    (tmp_path / "in/exam.json").write_text("\n".join(map(json.dumps, items)))
    rows = [
        {"id": "a", "text": f"{words(1, 30)} {question} {words(2, 30)}"},
        {"id": "b", "text": f"{words(3, 30)} {' '.join(question.split()[:15])} {words(4, 30)}"},
        {"id": "c", "text": words(5, 60)},
    ]
    step = {"step": "decontaminate", "against": [{"name": "exam", "path": "exam.json"}], "least_share": 0.5}
    assert sorted(run(tmp_path, rows, step)) == ["b", "c"]
    found = contamination_report(tmp_path / "out")
    assert [vars(entry) for entry in found.sets] == [
        {"name": "exam", "items": 3, "too_short": 1, "found": 1, "documents": 2}
    ]
    (hit,) = found.items
    assert (hit.item, hit.documents, hit.kept, hit.share) == ("exam/q1", 2, 1, 1.0)
    assert [name.rpartition("#")[2] for name in hit.examples] == ["a", "b"]


def test_advertising_goes_and_a_mention_stays(tmp_path: Path) -> None:
    news = "警方通报一起网上赌场案件，" + "依法处理有关人员并提醒市民注意防范风险。" * 10
    rows = [
        {"id": "spam", "text": "澳门赌场真人荷官，百家乐老虎机，注册送彩金，加微信领取。"},
        {"id": "news", "text": news},
        {"id": "own", "text": "禁用的词和另外一个禁用的词。"},
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/own.txt").write_text("禁用的词\n另外一个\n")
    kept = run(tmp_path, rows, {"step": "sensitive", "lists": ["own.txt"]})
    assert list(kept) == ["news"]
    assert fate(tmp_path, "spam") == ("sensitive", "sensitive_words")
    assert whatif(tmp_path / "out", {"sensitive.least_words": 9}).kept_after == 3
