"""Items of a task: read from JSON Lines or JSON, made into prompts."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from l4_mmodel._kit.problems import BadInput

if TYPE_CHECKING:
    from .suite import Task

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class ItemSource:
    """The names of the fields that hold an item's parts."""

    question: str
    choices: str
    answer: str
    id: str
    cluster: str | None
    kind: str
    options: list[str] | None = None
    entry_point: str = "entry_point"


@dataclass(frozen=True)
class TaskItem:
    """One item; `messages` (or, for a plain template, `text`) is what the model is given."""

    id: str
    question: str
    answer: str
    choices: list[str] = field(default_factory=list)
    right: int = -1
    cluster: str | None = None
    messages: list[dict[str, str]] = field(default_factory=list)
    text: str = ""
    entry_point: str = ""

    def prompted(self, task: Task, shots: Sequence[TaskItem]) -> TaskItem:
        """The item with the prompt that the task's template makes of it."""
        if task.template == "plain":
            shown = "".join(f"{_fill(task, shot)}{task.choice_prefix}{shot.answer}\n\n" for shot in shots)
            return replace(self, text=shown + _fill(task, self))
        messages = [{"role": "system", "content": task.system}] if task.system else []
        for shot in shots:
            messages.append({"role": "user", "content": _fill(task, shot)})
            messages.append({"role": "assistant", "content": shot.answer})
        return replace(self, messages=[*messages, {"role": "user", "content": _fill(task, self)}])

    @property
    def prompt_digest(self) -> str:
        """The digest of what the model is given."""
        raw = json.dumps([self.messages, self.text, self.choices], ensure_ascii=False)
        return f"sha256:{hashlib.sha256(raw.encode()).hexdigest()}"


def _fill(task: Task, item: TaskItem) -> str:
    lettered = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, item.choices, strict=False))
    return task.prompt.replace("{question}", item.question).replace("{choices}", lettered)


def read_items(path: Path, source: ItemSource) -> list[TaskItem]:
    """The items of a file (`.jsonl`, `.json`, either with `.gz`); a `BadInput` names a broken line."""
    items, seen = [], set()
    for number, row in read_rows(path):
        item = _item(row, number, source, where=f"{path.name} line {number}")
        if item.id in seen:
            raise BadInput(f"the id {item.id!r} comes twice", field=f"{path.name} line {number}")
        seen.add(item.id)
        items.append(item)
    return items


def read_rows(path: Path) -> list[tuple[int, Any]]:
    """The values of a file with the numbers of their lines; a `BadInput` names a broken one."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = raw.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise BadInput("no such file", field=str(path), do="check the suite's data") from error
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read: {error}", field=str(path)) from error
    if path.name.removesuffix(".gz").endswith(".json"):
        value = _json(text, str(path))
        rows = value.get("examples", value.get("example")) if isinstance(value, dict) else value
        if not isinstance(rows, list):
            raise BadInput("is not a list of items", field=str(path))
        return list(enumerate(rows, 1))
    lines = text.split("\n")
    return [(n, _json(line, f"{path.name} line {n}")) for n, line in enumerate(lines, 1) if line.strip()]


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"is not JSON: {error}", field=where, do="mend or remove it") from error


def _item(row: Any, number: int, source: ItemSource, where: str) -> TaskItem:
    if not isinstance(row, dict):
        raise BadInput("is not an object", field=where)
    missing = [name for name in (source.question, source.answer) if name not in row]
    if missing:
        raise BadInput(f"has no field {missing[0]!r}", field=where, do="name the field in the task")
    identity = str(row.get(source.id, number))
    cluster = str(row[source.cluster]) if source.cluster and source.cluster in row else None
    question, answer = str(row[source.question]), row[source.answer]
    if source.kind == "code":
        entry = str(row.get(source.entry_point, ""))
        return TaskItem(identity, question, str(answer), cluster=cluster, entry_point=entry)
    if source.kind == "generation":
        return TaskItem(identity, question, str(answer), cluster=cluster)
    choices = source.options or row.get(source.choices)
    if (
        not isinstance(choices, list)
        or len(choices) < 2
        or not all(isinstance(c, str) and c for c in choices)
    ):
        raise BadInput("needs a list of two or more choices, each text", field=f"{where}: {source.choices}")
    right = which_choice(answer, choices, where)
    return TaskItem(identity, question, choices[right], choices, right, cluster)


def which_choice(answer: Any, choices: Sequence[str], where: str) -> int:
    """The index of the right choice: given as number from 0, as letter, or as the choice's own text."""
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    if type(answer) is int and 0 <= answer < len(choices):
        return answer
    if isinstance(answer, str) and list(choices).count(answer) == 1:
        return list(choices).index(answer)
    letter = LETTERS.find(answer) if isinstance(answer, str) and len(answer) == 1 else -1
    if 0 <= letter < len(choices):
        return letter
    raise BadInput(
        f"{answer!r} is none of its {len(choices)} choices", field=f"{where}: answer",
        do="give a number from 0, a letter, or the choice's text",
    )  # fmt: skip
