"""Task files of lm-evaluation-harness (0.4), read as they are: the same items, prompts and numbers.

Accepted are `multiple_choice` and `generate_until` tasks over local JSON, JSON Lines or CSV files
(`dataset_path: json|csv` with `data_files`), with templates in Jinja, few-shot examples by the samplers
`default` (seed 1234, as its command line has it) and `first_n`, the filters regex, take_first,
remove_whitespace and lowercase, and the metrics acc, acc_norm and exact_match.  A task that runs Python
(`!function`) or uses anything else is refused by the field's name.
"""

from __future__ import annotations

import ast
import csv
import io
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from jinja2 import StrictUndefined
from jinja2.exceptions import TemplateError
from jinja2.sandbox import SandboxedEnvironment

from l4_mmodel._kit.problems import BadInput

from .tasks import TaskItem, read_rows

FEW_SHOT_SEED = 1234
MOST_TOKENS = 256
SHOWN_ELSEWHERE = frozenset(
    [
        "task",
        "task_alias",
        "tag",
        "group",
        "metadata",
        "dataset_name",
        "batch_size",
        "num_fewshot",
        "training_split",
        "validation_split",
        "test_split",
        "fewshot_split",
        "fewshot_config",
        "should_decontaminate",
        "doc_to_decontamination_query",
    ]
)
READ = frozenset(
    [
        "dataset_path",
        "dataset_kwargs",
        "output_type",
        "description",
        "doc_to_text",
        "doc_to_target",
        "doc_to_choice",
        "fewshot_delimiter",
        "target_delimiter",
        "metric_list",
        "generation_kwargs",
        "filter_list",
        "repeats",
    ]
)

Doc = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML in which `!function` is a value that is refused later, by its field's name."""


_Loader.add_constructor("!function", lambda _loader, node: Function(str(node.value)))


class Function(str):
    """A Python function that the file names."""

    __slots__ = ()


def is_harness_task(value: Any) -> bool:
    """Whether a YAML value is a task of lm-evaluation-harness rather than a suite of ours."""
    return isinstance(value, dict) and "task" in value and ("doc_to_text" in value or "dataset_path" in value)


def parse(text: str) -> Any:
    """The YAML value of a task file."""
    return yaml.load(text, _Loader)  # noqa: S506 (a safe loader)


class HarnessTask:
    """A task file and its documents."""

    def __init__(self, value: Doc, folder: Path) -> None:
        self.value = value
        self.folder = folder
        self.environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
        self.environment.filters["regex_replace"] = lambda text, pattern, by, count=0: re.sub(
            pattern, by, text, count=count
        )
        self._check_fields()
        self.splits = self._splits()
        self.docs = self._split_for("test_split", "validation_split", "training_split")

    @property
    def name(self) -> str:
        """The task's name, as ours are written."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", str(self.value["task"]))[:64]

    @property
    def choices_are_scored(self) -> bool:
        """Whether it is a multiple choice."""
        return str(self.value.get("output_type", "generate_until")) == "multiple_choice"

    def files(self) -> list[Path]:
        """The data files."""
        return [path for paths in self._data_files().values() for path in paths]

    def items(self, few_shot: int | None, limit: int | None) -> list[TaskItem]:
        """The items with their prompts, in the order of the file."""
        count = int(self.value.get("num_fewshot") or 0) if few_shot is None else few_shot
        sample = self._sampler(count)
        return [self._item(doc, number, sample(doc)) for number, doc in enumerate(self.docs[:limit])]

    def settings(self) -> Doc:
        """The fields of our own `Task` that say the same."""
        delimiter = str(self.value.get("target_delimiter", " "))
        common = {"name": self.name, "template": "plain", "choice_prefix": delimiter}
        metrics = self._metrics()
        if self.choices_are_scored:
            primary = "accuracy_norm" if list(metrics) == ["acc_norm"] else "accuracy"
            return {**common, "kind": "multiple_choice", "primary": primary}
        given = self.value.get("generation_kwargs") or {}
        until = given.get("until", [self._few_delimiter()])
        exact = {name: value for name, value in metrics.get("exact_match", {}).items() if name in EXACT}
        return {
            **common, "kind": "generation", "score": "exact_match", "exact_match": exact,
            "max_tokens": int(given.get("max_gen_toks", MOST_TOKENS)),
            "stop": [until] if isinstance(until, str) else list(until), "filters": self._filters(),
        }  # fmt: skip

    # -- documents ---------------------------------------------------------------------------------

    def _check_fields(self) -> None:
        for name, value in self.value.items():
            if isinstance(value, Function):
                raise BadInput(
                    f"runs Python ({value})", field=name, why="an evaluation must not run code of its file",
                    do="write the field as a Jinja template",
                )  # fmt: skip
            if name not in SHOWN_ELSEWHERE | READ:
                raise BadInput("is not supported", field=name, do="see the documentation of accepted fields")
        kind = str(self.value.get("output_type", "generate_until"))
        if kind not in ("multiple_choice", "generate_until"):
            raise BadInput(f"{kind} is not supported", field="output_type",
                           do="use multiple_choice or generate_until")  # fmt: skip
        for name in ("doc_to_text", "doc_to_target", *(["doc_to_choice"] if self.choices_are_scored else [])):
            if name not in self.value:
                raise BadInput("is missing", field=name)
        if self.value.get("repeats", 1) != 1:
            raise BadInput("several draws are not supported", field="repeats")

    def _data_files(self) -> dict[str, list[Path]]:
        kind = self.value.get("dataset_path")
        if kind not in ("json", "csv"):
            raise BadInput(
                f"{kind!r} is not a local format", field="dataset_path",
                do="download it, and say json or csv with dataset_kwargs.data_files",
            )  # fmt: skip
        found = (self.value.get("dataset_kwargs") or {}).get("data_files")
        if found is None:
            raise BadInput("names no file", field="dataset_kwargs.data_files")
        by_split = found if isinstance(found, dict) else {"train": found}
        return {
            split: [self.folder / name for name in ([names] if isinstance(names, str) else names)]
            for split, names in by_split.items()
        }

    def _splits(self) -> dict[str, list[Doc]]:
        read = _read_csv if self.value["dataset_path"] == "csv" else _read_json
        return {
            split: [doc for path in paths for doc in read(path)]
            for split, paths in self._data_files().items()
        }

    def _split_for(self, *fields: str) -> list[Doc]:
        for field in fields:
            split = self.value.get(field)
            if split is not None:
                if split not in self.splits:
                    raise BadInput(f"there is no split {split!r}", field=field,
                                   do=f"use one of {', '.join(self.splits)}")  # fmt: skip
                return self.splits[split]
        raise BadInput("no split is named", field=fields[0])

    # -- few-shot ----------------------------------------------------------------------------------

    def _few_delimiter(self) -> str:
        return str(self.value.get("fewshot_delimiter", "\n\n"))

    def _sampler(self, count: int) -> Callable[[Doc], list[Doc]]:
        if count == 0:
            return lambda _doc: []
        config = self.value.get("fewshot_config") or {}
        if isinstance(config.get("samples"), list):
            pool: list[Doc] = list(config["samples"])
        else:
            named = "fewshot_split" if self.value.get("fewshot_split") else "training_split"
            pool = self._split_for(named, "training_split", "validation_split", "test_split")
        if len(pool) < count:
            raise BadInput(f"has {len(pool)} examples, num_fewshot is {count}", field="fewshot_split")
        own = self.value.get("fewshot_split") == self.value.get("test_split")
        if config.get("sampler", "default") == "first_n":
            return lambda doc: [one for one in pool if not own or one != doc][:count]
        drawn = random.Random(FEW_SHOT_SEED)

        def sample(doc: Doc) -> list[Doc]:
            if not own:
                return drawn.sample(pool, count)
            return [one for one in drawn.sample(pool, count + 1) if one != doc][:count]

        return sample

    # -- prompts -----------------------------------------------------------------------------------

    def _item(self, doc: Doc, number: int, shots: list[Doc]) -> TaskItem:
        where = f"document {number}"
        text = self._render("description", doc, where) if self.value.get("description") else ""
        for shot in shots:
            text += self._turn(shot, where)
        text += self._text(doc, where)
        if not self.choices_are_scored:
            target = self._target(doc, where)
            expected = target[0] if isinstance(target, list) else str(target)
            return TaskItem(str(number), self._text(doc, where), expected, text=text)
        choices = self._choices(doc, where)
        right = self._right(doc, choices, where)
        return TaskItem(str(number), self._text(doc, where), choices[right], choices, right, text=text)

    def _turn(self, doc: Doc, where: str) -> str:
        target = self._target(doc, where)
        if self.choices_are_scored and isinstance(target, int):
            target = self._choices(doc, where)[target]
        answer = target[0] if isinstance(target, list) else str(target)
        between = str(self.value.get("target_delimiter", " ")) if answer else ""
        return f"{self._text(doc, where)}{between}{answer}{self._few_delimiter() if answer else ''}"

    def _text(self, doc: Doc, where: str) -> str:
        found = self._field("doc_to_text", doc, where)
        if not isinstance(found, str):
            raise BadInput("one prompt for each choice is not supported", field="doc_to_text")
        return found

    def _target(self, doc: Doc, where: str) -> Any:
        found = self._field("doc_to_target", doc, where)
        if isinstance(found, str) and found.isdigit() and "doc_to_choice" in self.value:
            return int(found)
        if isinstance(found, str) and len(found) > 1 and found[0] == "[" and found[-1] == "]":
            return _literal(found, found)
        return found

    def _right(self, doc: Doc, choices: list[str], where: str) -> int:
        target = self._target(doc, where)
        if isinstance(target, int) and 0 <= target < len(choices):
            return target
        if isinstance(target, str) and target in choices:
            return choices.index(target)
        raise BadInput(f"{target!r} is none of its {len(choices)} choices", field=f"{where}: doc_to_target")

    def _choices(self, doc: Doc, where: str) -> list[str]:
        value = self.value["doc_to_choice"]
        found: Any = value
        if isinstance(value, dict):
            found = list(value.values())
        elif isinstance(value, str):
            found = doc[value] if value in doc else _literal(self._render("doc_to_choice", doc, where), None)
        if not isinstance(found, list) or len(found) < 2 or not all(isinstance(one, str) for one in found):
            raise BadInput("is not a list of two or more texts", field=f"{where}: doc_to_choice")
        return found

    def _field(self, name: str, doc: Doc, where: str) -> Any:
        value = self.value[name]
        if isinstance(value, str):
            return doc[value] if value in doc else self._render(name, doc, where)
        return value

    def _render(self, name: str, doc: Doc, where: str) -> str:
        try:
            return self.environment.from_string(str(self.value[name])).render(**doc)
        except TemplateError as error:
            raise BadInput(f"cannot be filled in: {error}", field=f"{where}: {name}") from error

    # -- judging -----------------------------------------------------------------------------------

    def _metrics(self) -> dict[str, Doc]:
        known = {"acc", "acc_norm"} if self.choices_are_scored else {"exact_match"}
        default = [{"metric": name} for name in sorted(known)]
        found = {str(row.get("metric")): row for row in self.value.get("metric_list") or default}
        for name in found.keys() - known:
            raise BadInput(
                f"{name} is not supported", field="metric_list", do=f"use {', '.join(sorted(known))}"
            )
        return found

    def _filters(self) -> list[Doc]:
        pipelines = self.value.get("filter_list") or []
        if len(pipelines) > 1:
            raise BadInput("has several pipelines", field="filter_list", do="write one task for each")
        steps = pipelines[0]["filter"] if pipelines else []
        for step in steps:
            if step.get("function") not in ("regex", "take_first", "remove_whitespace", "lowercase"):
                raise BadInput(f"{step.get('function')!r} is not supported", field="filter_list")
        return [step for step in steps if step["function"] != "take_first"]


EXACT = ("ignore_case", "ignore_punctuation", "ignore_numbers", "regexes_to_ignore")
"""Options of exact_match."""


def _literal(text: str, otherwise: Any) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return otherwise


def _read_json(path: Path) -> list[Doc]:
    rows = [row for _, row in read_rows(path)]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise BadInput("is not an object", field=f"{path.name} row {number}")
    return rows


def _read_csv(path: Path) -> list[Doc]:
    """Rows of a CSV file; a column of numbers becomes numbers, as the harness's reader makes them."""
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"))))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read: {error}", field=str(path)) from error
    for name in rows[0] if rows else ():
        for kind in (int, float):
            try:
                numbers = [kind(row[name]) for row in rows]
            except (TypeError, ValueError):
                continue
            for row, number in zip(rows, numbers, strict=True):
                row[name] = number
            break
    return [dict(row) for row in rows]
