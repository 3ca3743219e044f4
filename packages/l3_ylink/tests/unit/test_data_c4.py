"""C4's rules for lines: each reason, Chinese, and what is left of a text in a run."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.explain import explain
from l3_ylink.datakit.purify.c4 import REASONS, judge, why_not
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("The node has lost its disk.", None),
        ('He said: "It is down."', None),
        ("The paper says so.[12]", None),
        ("Home | Products | About", "no_end_mark"),
        ("And so on and so forth...", "no_end_mark"),
        ("Read more.", "few_words"),
        ("Please enable JavaScript to go on.", "javascript"),
        ("By going on you accept our Cookie Policy today.", "policy"),
        ("x" * 1001 + " is not a word.", "long_word"),
        ("白日依山尽，黄河入海流。", None),
        ("欲穷千里目，更上一层楼……", None),
        ("首页 产品 关于我们", "no_end_mark"),
        ("好。", "few_words"),
        ("字" * 2000 + "。", None),
    ],
)
def test_a_line_stays_or_goes_for_its_reason(line: str, expected: str | None) -> None:
    assert why_not(line, 3, 1_000) == expected


def test_sentences_of_the_lines_that_stay_are_counted() -> None:
    found = judge("One is here. Two is here! Is three?\nmenu\n\n四在这里。五也在这里！\n", 3, 1_000)
    assert found.sentences == 5
    assert found.cuts == [(36, 41, REASONS.index("no_end_mark"))]


@settings(deadline=None)
@given(st.text("ab .\n。字[1]", max_size=200))
def test_cuts_are_whole_lines_in_order(text: str) -> None:
    end = 0
    for start, stop, _ in judge(text, 3, 1_000).cuts:
        assert end <= start < stop <= len(text)
        assert start == 0 or text[start - 1] == "\n"
        assert stop == len(text) or text[stop - 1] == "\n"
        end = stop


def test_a_run_exports_what_is_left_and_explains_what_went(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    body = "The first node is up again.\nThe second is down. It waits for a fan.\nNobody knows it. Ask!\n"
    (folder / "good.txt").write_text(f"Home | News | About\n{body}Share this\n")
    (folder / "menu.txt").write_text("Home | News\nProducts\nOne sentence stands here alone.\n")
    steps = [{"step": "extract"}, {"step": "c4"}]
    recipe = parse_recipe({"name": "x", "sources": [{"name": "s", "licence": "MIT"}], "steps": steps})
    out = run_recipe(recipe, input_folder=folder, out=tmp_path / "out").folder
    (shard,) = (out / "text").glob("*.parquet")
    (row,) = pq.ParquetFile(shard).read().to_pylist()
    assert row["text"] == body
    found = explain(out, "good.txt")
    assert [(cut["step"], cut["reason"]) for cut in found.cuts] == [("c4", "no_end_mark")] * 2
    assert (
        "".join(found.text[cut["start"] : cut["end"]] for cut in found.cuts)
        == "Home | News | About\nShare this\n"
    )
    gone = explain(out, "menu.txt")
    assert (gone.kept, gone.reason, gone.value, gone.threshold) == (False, "too_few_sentences", 1, 5)
