"""A suite: the YAML that says on what, and how, models are measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from l4_mmodel._kit.documents import digest_of, digest_of_file, validated
from l4_mmodel._kit.problems import BadInput

from .harness import HarnessTask, is_harness_task
from .harness import parse as parse_yaml
from .tasks import ItemSource, TaskItem, read_items


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _is(default: object) -> Callable[[object], bool]:
    """For `exclude_if`: what a suite from before the field did not say must not change its digest."""
    return lambda value: value == default


class Task(_Strict):
    """One set of items and how an answer is judged."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    kind: Literal["multiple_choice", "generation", "code"] = "multiple_choice"
    data: str = Field(description="a JSON Lines or JSON file, relative to the suite")
    question: str = "question"
    choices: str = "choices"
    answer: str = "answer"
    options: list[str] | None = Field(default=None, description="the choices, where all items share them")
    primary: Literal["accuracy", "accuracy_norm"] = Field(
        default="accuracy", description="what decides whether an item is right; _norm divides by length"
    )
    id: str = "id"
    cluster: str | None = Field(default=None, description="field that names dependent items' group")
    template: Literal["chat", "plain"] = "chat"
    prompt: str = "{question}"
    system: str | None = None
    choice_prefix: str = Field(default="", description="put before each choice, e.g. a space")
    few_shot: int = Field(default=0, ge=0, le=32, description="items of `few_shot_data` shown before each")
    few_shot_data: str | None = None
    limit: int | None = Field(default=None, ge=1)
    extract: str = Field(default="text", description="text, last_number, gsm8k, choice_letter, or a regex")
    score: Literal["exact", "number", "contains", "f1", "exact_match"] = "exact"
    max_tokens: int = Field(default=64, ge=1, le=4096)
    stop: list[str] = Field(default_factory=list, max_length=4)
    exact_match: dict[str, Any] = Field(
        default_factory=dict, exclude_if=_is({}), description="the harness's options of exact_match"
    )
    filters: list[dict[str, Any]] = Field(
        default_factory=list, exclude_if=_is([]), description="the harness's filters of an answer"
    )
    # Of code: the answer is a program, `answer` names the field with its tests.
    entry_point: str = Field(
        default="entry_point", exclude_if=_is("entry_point"), description="field that names the function"
    )
    samples: int = Field(default=1, ge=1, le=200, exclude_if=_is(1), description="programs drawn an item")
    k: list[int] = Field(default_factory=lambda: [1], exclude_if=_is([1]), description="of pass@k")
    temperature: float = Field(default=0, ge=0, le=2, exclude_if=_is(0), description="of the samples")
    time_limit_s: float = Field(default=3, gt=0, le=60, exclude_if=_is(3), description="of one program")

    @model_validator(mode="after")
    def samples_suffice(self) -> Task:
        if self.kind == "code" and not 1 <= min(self.k, default=0) <= max(self.k, default=0) <= self.samples:
            raise ValueError(f"k must lie between 1 and samples, which is {self.samples}")
        if self.samples > 1 and self.temperature == 0:
            raise ValueError("several samples at temperature 0 are one and the same")
        return self

    @model_validator(mode="after")
    def shots_have_data(self) -> Task:
        if self.few_shot and not self.few_shot_data:
            raise ValueError("few_shot needs few_shot_data")
        return self


class LatencyPlan(_Strict):
    """Requests sent to measure latency: one after another, or arriving at a rate."""

    requests: int = Field(default=16, ge=1, le=100_000)
    max_tokens: int = Field(default=16, ge=1, le=4096)
    concurrency: int = Field(default=1, ge=1, le=256)
    rate_per_s: float | None = Field(default=None, gt=0, description="open loop: Poisson arrivals")


class StabilityPlan(_Strict):
    """The same prompts again and again."""

    items: int = Field(default=4, ge=1)
    repeats: int = Field(default=3, ge=2, le=100)
    temperature: float = Field(default=0, ge=0, le=2)
    max_tokens: int = Field(default=16, ge=1, le=4096)


class Suite(_Strict):
    """Tasks, and optionally latency and stability, under one name and version."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")
    version: str = "1"
    seed: int = Field(default=0, ge=0)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    tasks: list[Task] = Field(min_length=1)
    latency: LatencyPlan | None = None
    stability: StabilityPlan | None = None

    @model_validator(mode="after")
    def names_differ(self) -> Suite:
        if len({task.name for task in self.tasks}) != len(self.tasks):
            raise ValueError("two tasks have the same name")
        return self


class LoadedSuite:
    """A suite with its items; `digest` covers the settings and the bytes of every data file."""

    def __init__(self, suite: Suite, items: dict[str, list[TaskItem]], data: dict[str, str]) -> None:
        self.suite = suite
        self.items = items
        self.data = data
        self.digest = digest_of({"suite": suite.model_dump(mode="json"), "data": data})


def load_suite(path: Path, dataset_file: Callable[[str], Path]) -> LoadedSuite:
    """Reads a suite and its data; a `BadInput` names the file, the line and the fault.

    `dataset_file` finds data given as `dataset:NAME[@N][/FILE]`.
    """
    value, harness = _with_harness_tasks(_read_yaml(path), path)
    suite = parse_suite(value, str(path))

    def find(name: str) -> Path:
        return dataset_file(name) if name.startswith("dataset:") else path.parent / name

    items: dict[str, list[TaskItem]] = {}
    data: dict[str, str] = {}
    for task in suite.tasks:
        if task.name in harness:
            theirs = harness[task.name]
            items[task.name] = theirs.items(task.few_shot, task.limit)
            data |= {f"{task.name}/{file.name}": digest_of_file(file) for file in theirs.files()}
            continue
        source = ItemSource(
            task.question,
            task.choices,
            task.answer,
            task.id,
            task.cluster,
            task.kind,
            task.options,
            task.entry_point,
        )
        items[task.name] = _items(find, task, source)
        for name in filter(None, (task.data, task.few_shot_data)):
            data[name] = digest_of_file(find(name))
    return LoadedSuite(suite, items, data)


def _with_harness_tasks(value: Any, path: Path) -> tuple[Any, dict[str, HarnessTask]]:
    """A suite in which tasks of lm-evaluation-harness are written in our words, and those tasks.

    A task `{harness: FILE}` names a task file; a file that is one by itself becomes a suite of one task.
    """
    if is_harness_task(value):
        value = {"name": str(value["task"]), "tasks": [{"harness": path.name}]}
    if not isinstance(value, dict) or not isinstance(value.get("tasks"), list):
        return value, {}
    found: dict[str, HarnessTask] = {}
    tasks = []
    for task in value["tasks"]:
        if not isinstance(task, dict) or "harness" not in task:
            tasks.append(task)
            continue
        file = path.parent / str(task["harness"])
        theirs = HarnessTask(_read_yaml(file), file.parent)
        settings = {**theirs.settings(), **{name: task[name] for name in task if name != "harness"}}
        shots = settings.get("few_shot", theirs.value.get("num_fewshot") or 0)
        tasks.append({**settings, "few_shot": shots, "data": file.name, "few_shot_data": file.name})
        found[settings["name"]] = theirs
    return {**value, "tasks": tasks}, found


def parse_suite(value: Any, where: str) -> Suite:
    """The settings alone."""
    return validated(Suite, value, where=where)


def _read_yaml(path: Path) -> Any:
    try:
        return parse_yaml(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BadInput("no such file", field=str(path), do="check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise BadInput(f"is not readable YAML: {error}", field=str(path)) from error


def _items(find: Callable[[str], Path], task: Task, source: ItemSource) -> list[TaskItem]:
    items = read_items(find(task.data), source)[: task.limit]
    if not items:
        raise BadInput("holds no items", field=task.data, do="give a file with at least one")
    shots = read_items(find(task.few_shot_data), source) if task.few_shot_data else []
    if len(shots) < task.few_shot:
        raise BadInput(f"has {len(shots)} items, few_shot is {task.few_shot}", field=str(task.few_shot_data))
    return [item.prompted(task, shots[: task.few_shot]) for item in items]


def key_of(*parts: str) -> str:
    """A short name for a combination of digests."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
