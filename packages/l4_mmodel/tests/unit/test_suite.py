"""Suites and items: what is read, and how a fault in them is told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from l4_mmodel.api import BadInput
from l4_mmodel.evaluation.suite import LoadedSuite, load_suite

ITEM = {"id": "a", "question": "Which?", "choices": ["one", "two", "three"], "answer": 1}


def no_dataset(_text: str) -> Path:
    raise AssertionError("no data set was meant")


def suite(folder: Path, rows: list[Any] | str, **task: Any) -> LoadedSuite:
    data = rows if isinstance(rows, str) else "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "items.jsonl").write_text(data, "utf-8")
    value = {"name": "s", "tasks": [{"name": "t", "data": "items.jsonl", **task}]}
    (folder / "suite.yaml").write_text(json.dumps(value), "utf-8")
    return load_suite(folder / "suite.yaml", no_dataset)


@pytest.mark.parametrize(("answer", "right"), [(1, 1), ("B", 1), ("two", 1), (["C"], 2), (0, 0)])
def test_the_right_choice_by_number_letter_or_text(tmp_path: Path, answer: Any, right: int) -> None:
    (item,) = suite(tmp_path, [{**ITEM, "answer": answer}]).items["t"]
    assert item.right == right
    assert item.messages == [{"role": "user", "content": "Which?"}]


def test_shots_come_before_and_the_system_prompt_first(tmp_path: Path) -> None:
    (tmp_path / "shots.jsonl").write_text(json.dumps({**ITEM, "id": "s", "question": "Before?"}))
    task = {
        "few_shot": 1,
        "few_shot_data": "shots.jsonl",
        "system": "Be brief.",
        "prompt": "Q: {question}\n{choices}",
    }
    (item,) = suite(tmp_path, [ITEM], **task).items["t"]
    lettered = "A. one\nB. two\nC. three"
    assert [message["content"] for message in item.messages] == [
        "Be brief.", f"Q: Before?\n{lettered}", "two", f"Q: Which?\n{lettered}",
    ]  # fmt: skip


def test_a_plain_template_is_one_text(tmp_path: Path) -> None:
    task = {"template": "plain", "prompt": "{question} Answer:", "choice_prefix": " "}
    (item,) = suite(tmp_path, [ITEM], **task).items["t"]
    assert (item.text, item.messages) == ("Which? Answer:", [])


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("\n".join([json.dumps({**ITEM, "id": n}) for n in range(6)] + ["{broken"]), "line 7: is not JSON"),
        ([ITEM, ITEM], "comes twice"),
        ([{**ITEM, "answer": 7}], "none of its 3 choices"),
        ([{**ITEM, "choices": ["one"]}], "two or more choices"),
        ([{"id": 1, "answer": 1}], "has no field 'question'"),
        ([5], "not an object"),
        ("", "holds no items"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, rows: Any, fault: str) -> None:
    with pytest.raises(BadInput, match=fault):
        suite(tmp_path, rows)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("name: [", "not readable YAML"),
        ("name: s\ntasks: []", "tasks"),
        ("name: s\ntasks: [{name: t, data: x, kind: essay}]", "kind"),
        ("name: s\ntasks: [{name: t, data: missing.jsonl}]", "no such file"),
        ("name: s\ntasks: [{name: t, data: x}, {name: t, data: y}]", "same name"),
        ("name: s\ncolour: red\ntasks: [{name: t, data: x}]", "colour"),
    ],
)
def test_faults_of_the_suite_itself(tmp_path: Path, value: str, fault: str) -> None:
    (tmp_path / "suite.yaml").write_text(value)
    with pytest.raises(BadInput, match=fault):
        load_suite(tmp_path / "suite.yaml", no_dataset)


def test_the_digest_covers_settings_and_data(tmp_path: Path) -> None:
    first = suite(tmp_path, [ITEM]).digest
    assert suite(tmp_path, [ITEM]).digest == first
    assert suite(tmp_path, [{**ITEM, "answer": 2}]).digest != first
    assert suite(tmp_path, [ITEM], limit=1).digest != first


def test_the_layouts_of_gaokao_bench_and_big_bench_hard(tmp_path: Path) -> None:
    gaokao = {
        "example": [{"index": 0, "question": "下列正确的是\nA．一\nB．二\nC．三\nD．四", "answer": ["D"]}]
    }
    (tmp_path / "g.json").write_text(json.dumps(gaokao, ensure_ascii=False), "utf-8")
    bbh = {"canary": "x", "examples": [{"input": "Yes or no?", "target": "No"}]}
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps(bbh).encode()))
    value = {
        "name": "s",
        "tasks": [
            {"name": "g", "data": "g.json", "id": "index", "options": ["A", "B", "C", "D"]},
            {
                "name": "b",
                "data": "b.json.gz",
                "question": "input",
                "answer": "target",
                "options": ["Yes", "No"],
            },
        ],
    }
    (tmp_path / "suite.yaml").write_text(json.dumps(value))
    items = load_suite(tmp_path / "suite.yaml", no_dataset).items
    assert (items["g"][0].right, items["b"][0].right) == (3, 1)


def test_a_task_of_code_names_its_tests_and_function(tmp_path: Path) -> None:
    row = {"task_id": "HumanEval/0", "prompt": "def f():\n", "test": "def check(c): ...", "entry_point": "f"}
    task = {
        "kind": "code", "question": "prompt", "answer": "test", "id": "task_id", "template": "plain",
        "samples": 5, "k": [1, 5], "temperature": 0.8,
    }  # fmt: skip
    (item,) = suite(tmp_path, [row], **task).items["t"]
    assert (item.id, item.text, item.entry_point, item.answer) == (
        "HumanEval/0", "def f():\n", "f", "def check(c): ...",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("task", "words"),
    [({"k": [5]}, "k must lie"), ({"k": []}, "k must lie"), ({"samples": 3}, "one and the same")],
)
def test_samples_that_make_no_sense_are_refused(tmp_path: Path, task: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        suite(tmp_path, [ITEM], kind="code", **task)


def test_fields_added_later_leave_the_digest_of_a_suite_alone(tmp_path: Path) -> None:
    assert "samples" not in suite(tmp_path, [ITEM]).suite.model_dump(mode="json")["tasks"][0]
