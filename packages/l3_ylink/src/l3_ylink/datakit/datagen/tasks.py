"""Three ways to new tasks: from examples (Self-Instruct), made harder (Evol-Instruct), from personas."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import Field, PrivateAttr

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.fileqa.decode import decode

from .base import Job, Made, Method, Talk, key_of
from .prompts import LEAKS, depths, prompt
from .similar import rouge_l, units_of

SHORTEST, LONGEST = 8, 4_000
"""Characters of a task."""


def read_lines(folder: Path, path: Path, what: str) -> list[str]:
    """The lines of a file that say something."""
    try:
        text = decode((folder / path).read_bytes()).text
    except OSError as error:
        raise BadInput(
            f"cannot be read: {error.strerror}", field=str(path), do=f"give a file with {what}"
        ) from error
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise BadInput("is empty", field=str(path), do=f"give a file with {what}")
    return lines


def read_tasks(folder: Path, path: Path) -> list[str]:
    """Tasks: a line each, or the user's first words of each row of instructions (JSONL)."""
    lines = read_lines(folder, path, "tasks, a line each, or instructions as JSONL")
    if path.suffix not in (".jsonl", ".ndjson", ".json"):
        return lines
    tasks = []
    for number, line in enumerate(lines, 1):
        task = _first_words(line)
        if not task:
            raise BadInput(
                f"line {number}: no task", field=str(path), do="give rows with instruction or messages"
            )
        tasks.append(task)
    return tasks


def _first_words(line: str) -> str:
    """The task of a row: its instruction, or the user's first message; "" where there is none."""
    try:
        row = orjson.loads(line)
        task = row.get("instruction")
        for turn in row.get("messages") or row.get("conversations") or ():
            if task is None and turn.get("role", turn.get("from")) in ("user", "human"):
                task = turn.get("content", turn.get("value"))
    except (ValueError, AttributeError, TypeError):
        return ""
    return task.strip() if isinstance(task, str) else ""


def one_task(key: str, text: str, meta: dict[str, Any]) -> Made:
    """A task as a row that is still to be answered; rejected if it cannot be one."""
    task = text.strip().removeprefix("Task:").removeprefix("任务：").strip().strip('"“”').strip()
    made = Made(key, [{"role": "user", "content": task}], meta)
    if not SHORTEST <= len(task) <= LONGEST:
        return made.rejected("task_too_short" if len(task) < SHORTEST else "task_too_long", task)
    return made


class SelfInstruct(Method):
    """New tasks from a few examples, in rounds; what was kept is an example for the next round."""

    method: Literal["self_instruct"] = "self_instruct"
    seeds: Path = Field(description="tasks, a line each, or instructions as JSONL")
    examples: int = Field(6, ge=1, le=20, description="in a question; two thirds of them seeds")
    round_of: int = Field(20, ge=1, le=1_000)
    _seeds: list[str] = PrivateAttr(default_factory=list)
    _seed: int = PrivateAttr(0)

    def prepare(self, folder: Path, seed: int) -> None:
        """Reads the seeds."""
        self._seeds, self._seed = read_tasks(folder, self.seeds), seed

    def known(self) -> list[str]:
        """The seeds."""
        return list(self._seeds)

    def jobs(self, number: int, kept: Sequence[Made], wanted: int) -> list[Job]:
        """As many as a round has, until enough was kept or three times as many were tried."""
        if len(kept) >= wanted or number * self.round_of >= 3 * wanted + self.round_of:
            return []
        made = [row.messages[0]["content"] for row in kept]
        jobs = []
        for place in range(self.round_of):
            rng = random.Random(f"{self._seed}/{number}/{place}")
            own = min(len(made), self.examples // 3)
            chosen = rng.sample(self._seeds, min(len(self._seeds), self.examples - own)) + rng.sample(
                made, own
            )
            rng.shuffle(chosen)
            jobs.append(Job(key_of(number, place, chosen), {"examples": chosen, "round": number}))
        return jobs

    def tasks(self, job: Job, talk: Talk) -> list[Made]:
        """Asks for one more task."""
        examples = "\n".join(f"{place}. {task}" for place, task in enumerate(job.data["examples"], 1))
        text = talk.ask(prompt("new_task", talk.language, examples=examples))
        return [one_task(job.key, text, {"method": self.method, "round": job.data["round"]})]


class Evolve(Method):
    """Each task made harder, or varied, some times; a generation that fails leaves the one before."""

    method: Literal["evolve"] = "evolve"
    seeds: Path = Field(description="tasks, a line each, or instructions as JSONL")
    generations: int = Field(2, ge=1, le=10)
    _seeds: list[str] = PrivateAttr(default_factory=list)
    _seed: int = PrivateAttr(0)

    def prepare(self, folder: Path, seed: int) -> None:
        """Reads the seeds."""
        self._seeds, self._seed = read_tasks(folder, self.seeds), seed

    def jobs(self, number: int, kept: Sequence[Made], wanted: int) -> list[Job]:
        """One for each seed and generation."""
        if number >= self.generations or len(kept) >= wanted:
            return []
        newest = dict(enumerate(self._seeds))
        for row in kept:
            newest[row.meta["seed"]] = row.messages[0]["content"]
        return [
            Job(
                key_of(number, place, task),
                {"task": task, "seed": place, "generation": number + 1},
            )
            for place, task in newest.items()
        ]

    def tasks(self, job: Job, talk: Talk) -> list[Made]:
        """Asks for the next generation."""
        rng = random.Random(f"{self._seed}/{job.key}")
        ways = depths(talk.language)
        way = rng.randrange(len(ways) + 1)
        if way < len(ways):
            text = talk.ask(prompt("evolve", talk.language, task=job.data["task"], how=ways[way]))
        else:
            text = talk.ask(prompt("evolve_breadth", talk.language, task=job.data["task"]))
        about = {name: job.data[name] for name in ("seed", "generation")}
        made = one_task(job.key, text, {"method": self.method, **about, "parent": job.data["task"]})
        task = made.messages[0]["content"]
        if rouge_l(units_of(task), units_of(job.data["task"])) > 0.95:
            return [made.rejected("unchanged", task)]
        if any(word in task.lower() and word not in job.data["task"].lower() for word in LEAKS):
            return [made.rejected("repeats_prompt", task)]
        return [made]


class Persona(Method):
    """Tasks that different people would bring, and so of many kinds."""

    method: Literal["persona"] = "persona"
    personas: Path = Field(description="a person in a line each")
    topics: list[str] = Field(default_factory=list)
    each: int = Field(1, ge=1, le=100, description="tasks of one person (and topic)")
    _people: list[str] = PrivateAttr(default_factory=list)

    def prepare(self, folder: Path, seed: int) -> None:  # noqa: ARG002 (nothing is drawn)
        """Reads the people."""
        self._people = read_lines(folder, self.personas, "a person in a line each")

    def jobs(self, number: int, kept: Sequence[Made], wanted: int) -> list[Job]:  # noqa: ARG002
        """One for each person, topic and turn."""
        if number:
            return []
        every = [
            {"persona": person, "topic": topic, "turn": turn}
            for turn in range(self.each)
            for topic in self.topics or [""]
            for person in self._people
        ]
        return [Job(key_of(place, data), data) for place, data in enumerate(every)]

    def tasks(self, job: Job, talk: Talk) -> list[Made]:
        """Asks for the person's task."""
        topic = job.data["topic"]
        about = prompt("about", talk.language, topic=topic) if topic else ""
        text = talk.ask(prompt("persona_task", talk.language, persona=job.data["persona"], about=about))
        return [one_task(job.key, text, {"method": self.method, **job.data})]
