"""`ylink data extract` and extraction in a recipe, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from l3_ylink._kit.problems import BadInput, NotFound
from l3_ylink.cli import app
from typer.testing import CliRunner

HTML = "<html><head><title>T</title></head><body><h1>Head</h1><p>你好 &lt;b&gt;</p><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></body></html>"  # noqa: E501


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "page.html"
    path.parent.mkdir()
    path.write_text(HTML, encoding="utf-8")
    return path


def test_the_forms_of_a_file(page: Path) -> None:
    run = CliRunner()
    assert run.invoke(app, ["data", "extract", str(page)]).stdout == "Head\n\n你好 <b>\n\na | b\n1 | 2\n"
    markdown = run.invoke(app, ["data", "extract", str(page), "--markdown"]).stdout
    assert markdown == "# Head\n\n你好 \\<b>\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n"
    html = run.invoke(app, ["data", "extract", str(page), "--html"]).stdout
    assert "<p>你好 &lt;b&gt;</p>" in html
    assert "<th>a</th>" in html


def test_the_map_leads_back_to_the_source(page: Path) -> None:
    done = CliRunner().invoke(app, ["data", "extract", str(page), "--map"])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["text"] for row in rows] == ["Head", "你好 <b>", "a", "b", "1", "2"]
    assert [HTML[slice(*row["chars"])] for row in rows] == ["Head", "你好 &lt;b&gt;", "a", "b", "1", "2"]
    assert {row["file"] for row in rows} == {str(page)}


def test_what_cannot_be_read_is_reported_and_the_rest_is_done(page: Path, tmp_path: Path) -> None:
    (page.parent / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (page.parent / "broken.docx").write_bytes(b"PK\x03\x04")
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["data", "extract", str(page.parent), "--out", str(out), "--map", "--markdown"]
    )
    assert done.exit_code == 1
    assert "broken.pdf: not read: broken" in done.stderr
    assert "broken.docx: not read: broken" in done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["page.html.map.jsonl", "page.html.md"]
    listed = CliRunner().invoke(app, ["data", "extract", str(page.parent), "--json"])
    documents = {Path(row["path"]).name: row for row in json.loads(listed.stdout)}
    assert {name: row["error"] for name, row in documents.items()} == {
        "page.html": None,
        "broken.pdf": "broken",
        "broken.docx": "broken",
    }
    table = documents["page.html"]["blocks"][2]
    assert [[cell["text"] for cell in row] for row in table["rows"]] == [["a", "b"], ["1", "2"]]


def test_a_wrong_name_is_told_before_anything_is_read(page: Path, tmp_path: Path) -> None:
    (tmp_path / "x.xyz").write_text("x")
    done = CliRunner().invoke(app, ["data", "extract", str(page), str(tmp_path / "x.xyz")])
    assert isinstance(done.exception, BadInput)
    assert done.stdout == ""
    assert isinstance(CliRunner().invoke(app, ["data", "extract", "none.pdf"]).exception, NotFound)
    both = CliRunner().invoke(app, ["data", "extract", str(page), "--html", "--markdown"])
    assert isinstance(both.exception, BadInput)


def test_a_recipe_reads_office_files_and_says_what_it_could_not_read(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    from l3_ylink.datakit.explain import explain
    from l3_ylink.datakit.recipe import parse_recipe
    from l3_ylink.datakit.run import run_recipe

    place = tmp_path / "in"
    place.mkdir()
    document = docx.Document()
    document.add_heading("表格", 1)
    table = document.add_table(2, 2)
    for number, words in enumerate(("名", "值", "甲", "1")):
        table.cell(number // 2, number % 2).text = words
    document.save(place / "good.docx")
    (place / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    recipe = parse_recipe(
        {
            "name": "files",
            "sources": [{"name": "s", "licence": "CC0-1.0"}],
            "steps": [{"step": "extract", "form": "markdown"}],
        }
    )
    run = run_recipe(recipe, input_folder=place, out=tmp_path / "out")
    assert run.manifest.rows == 1
    assert explain(tmp_path / "out", "broken.pdf").reason == "broken"
    kept = explain(tmp_path / "out", "good.docx")
    assert kept.kept
    (shard,) = (tmp_path / "out/text").glob("*.parquet")
    (text,) = pq.read_table(shard).column("text").to_pylist()
    assert text == "# 表格\n\n| 名 | 值 |\n| --- | --- |\n| 甲 | 1 |\n"
