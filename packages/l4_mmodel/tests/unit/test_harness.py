"""Task files of lm-evaluation-harness: the same prompts, choices and judgements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from l4_mmodel.api import BadInput
from l4_mmodel.evaluation.scoring import exact_match, filtered
from l4_mmodel.evaluation.suite import LoadedSuite, load_suite

DOCS = [
    {"q": f"Question {n}?", "choices": ["one", "two", "three"], "answer": n % 3, "subject": "maths"}
    for n in range(6)
]
CHOICE = {
    "task": "tiny_mmlu", "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "t.jsonl", "dev": "d.jsonl"}},
    "test_split": "test", "fewshot_split": "dev", "output_type": "multiple_choice",
    "description": "About {{subject}}.\n\n", "doc_to_text": "{{q}}\nAnswer:", "doc_to_choice": "choices",
    "doc_to_target": "answer", "fewshot_config": {"sampler": "first_n"},
    "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
}  # fmt: skip
GENERATE = {
    "task": "tiny_gsm", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "t.jsonl"}},
    "test_split": "test", "output_type": "generate_until", "doc_to_text": "Q: {{q}}\nA:",
    "doc_to_target": "{{choices[answer]}}", "generation_kwargs": {"until": ["\n"], "max_gen_toks": 32},
    "metric_list": [{"metric": "exact_match", "ignore_case": True, "ignore_punctuation": False}],
    "filter_list": [{"name": "n", "filter": [
        {"function": "regex", "regex_pattern": r"is (\w+)", "group_select": -1}, {"function": "take_first"},
    ]}],
}  # fmt: skip


def load(folder: Path, task: dict[str, Any], **suite: Any) -> LoadedSuite:
    lines = "\n".join(json.dumps(doc) for doc in DOCS)
    (folder / "t.jsonl").write_text(lines)
    (folder / "d.jsonl").write_text(
        "\n".join(json.dumps({**doc, "q": f"Shot {n}?"}) for n, doc in enumerate(DOCS))
    )
    (folder / "task.yaml").write_text(json.dumps(task))
    if not suite:
        return load_suite(folder / "task.yaml", lambda _: folder)
    (folder / "suite.yaml").write_text(
        json.dumps({"name": "s", "tasks": [{"harness": "task.yaml", **suite}]})
    )
    return load_suite(folder / "suite.yaml", lambda _: folder)


def test_a_multiple_choice_has_the_harness_prompt(tmp_path: Path) -> None:
    loaded = load(tmp_path, CHOICE, few_shot=2, limit=4)
    (task,) = loaded.suite.tasks
    items = loaded.items["tiny_mmlu"]
    assert (task.kind, task.choice_prefix, len(items)) == ("multiple_choice", " ", 4)
    assert items[1].text == (
        "About maths.\n\n"
        "Shot 0?\nAnswer: one\n\nShot 1?\nAnswer: two\n\n"
        "Question 1?\nAnswer:"
    )  # fmt: skip
    assert (items[1].choices, items[1].right) == (["one", "two", "three"], 1)


def test_a_task_file_alone_is_a_suite_of_one(tmp_path: Path) -> None:
    loaded = load(tmp_path, CHOICE)
    assert (loaded.suite.name, len(loaded.items["tiny_mmlu"])) == ("tiny_mmlu", 6)
    assert set(loaded.data) == {"tiny_mmlu/t.jsonl", "tiny_mmlu/d.jsonl"}


def test_the_default_sampler_draws_what_the_harness_draws(tmp_path: Path) -> None:
    # random.Random(1234).sample(range(6), 2), then the next draw: what the harness does for each document.
    import random

    drawn = random.Random(1234)
    expected = [[f"Shot {n}?" for n in drawn.sample(range(6), 2)] for _ in range(3)]
    items = load(tmp_path, {**CHOICE, "fewshot_config": {}}, few_shot=2, limit=3).items["tiny_mmlu"]
    found = [[line for line in item.text.splitlines() if line.startswith("Shot")] for item in items]
    assert found == expected


def test_a_document_is_never_its_own_example(tmp_path: Path) -> None:
    task = {**CHOICE, "fewshot_split": "test", "fewshot_config": {}}
    for number, item in enumerate(load(tmp_path, task, few_shot=3).items["tiny_mmlu"]):
        assert item.text.count(f"Question {number}?") == 1
        assert item.text.count("Answer:") == 4


@pytest.mark.parametrize(
    ("change", "choices", "right"),
    [
        ({"doc_to_choice": ["A", "B", "C"]}, ["A", "B", "C"], 0),
        ({"doc_to_choice": "{{['x', 'y', choices[2]]}}"}, ["x", "y", "three"], 0),
        ({"doc_to_choice": {"a": "yes", "b": "no", "c": "so"}}, ["yes", "no", "so"], 0),
        ({"doc_to_target": "{{choices[1]}}"}, ["one", "two", "three"], 1),
        ({"doc_to_target": "{{answer}}"}, ["one", "two", "three"], 0),
    ],
)
def test_choices_and_targets_in_every_form(
    tmp_path: Path, change: dict[str, Any], choices: list[str], right: int
) -> None:
    item = load(tmp_path, {**CHOICE, **change}).items["tiny_mmlu"][0]
    assert (item.choices, item.right) == (choices, right)


def test_a_generation_is_filtered_and_matched_as_told(tmp_path: Path) -> None:
    loaded = load(tmp_path, GENERATE)
    (task,) = loaded.suite.tasks
    assert (task.kind, task.score, task.max_tokens, task.stop) == ("generation", "exact_match", 32, ["\n"])
    item = loaded.items["tiny_gsm"][1]
    assert (item.text, item.answer) == ("Q: Question 1?\nA:", "two")
    answer = filtered("It is one. No, it is Two", task.filters)
    assert answer == "Two"
    assert exact_match(answer, item.answer, **task.exact_match) == 1.0
    assert filtered("who knows", task.filters) == "[invalid]"


@pytest.mark.parametrize(
    ("answer", "options", "score"),
    [
        ("12", {}, 1.0), ("$12", {}, 0.0), ("$12", {"regexes_to_ignore": [r"\$", ","]}, 1.0),
        ("12.", {"ignore_punctuation": True}, 1.0), (" 12", {}, 0.0), ("13", {"ignore_numbers": True}, 1.0),
    ],
)  # fmt: skip
def test_exact_match_has_the_harness_options(answer: str, options: dict[str, Any], score: float) -> None:
    assert exact_match(answer, "12", **options) == score


def test_csv_columns_of_numbers_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("q,a,b,right\nWhich?,x,y,1\nWho?,u,v,0\n")
    task = {
        "task": "c", "dataset_path": "csv", "dataset_kwargs": {"data_files": "t.csv"}, "test_split": "train",
        "output_type": "multiple_choice", "doc_to_text": "q", "doc_to_choice": "{{[a, b]}}",
        "doc_to_target": "right",
    }  # fmt: skip
    items = load(tmp_path, task).items["c"]
    assert [(item.text, item.right) for item in items] == [("Which?", 1), ("Who?", 0)]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"output_type": "loglikelihood_rolling"}, "output_type"),
        ({"use_prompt": "x"}, "use_prompt"),
        ({"dataset_path": "cais/mmlu"}, "dataset_path"),
        ({"dataset_kwargs": {}}, "dataset_kwargs.data_files"),
        ({"test_split": "nowhere"}, "test_split"),
        ({"metric_list": [{"metric": "brier_score"}]}, "metric_list"),
        ({"doc_to_text": "{{nothing}}"}, "document 0: doc_to_text"),
        ({"doc_to_target": "7"}, "document 0: doc_to_target"),
    ],
)
def test_what_is_not_supported_is_refused_by_its_field(
    tmp_path: Path, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, {**CHOICE, **change})
    assert caught.value.field == field


def test_python_of_a_task_file_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(
        "task: x\ndataset_path: json\nprocess_docs: !function utils.process\n"
    )
    with pytest.raises(BadInput, match="runs Python") as caught:
        load_suite(tmp_path / "task.yaml", lambda _: tmp_path)
    assert caught.value.field == "process_docs"
    (tmp_path / "task.yaml").write_text(
        json.dumps({**CHOICE, "doc_to_text": "{{ ''.__class__.__mro__[1].__subclasses__() }}"})
    )
    (tmp_path / "t.jsonl").write_text(json.dumps(DOCS[0]))
    (tmp_path / "d.jsonl").write_text(json.dumps(DOCS[0]))
    with pytest.raises(BadInput, match="cannot be filled in"):
        load_suite(tmp_path / "task.yaml", lambda _: tmp_path)
