"""Runs a suite against a target: each result is kept as it comes, a report is made of all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from l4_mmodel._kit import sandbox
from l4_mmodel._kit.documents import Producer, Reference
from l4_mmodel.documents import EvalReport, Item, LatencySummary, MetricValue, StabilityRun

from . import latency, stability
from .code import pass_at_k, program_of
from .latency import Timing
from .results import ResultLog
from .scoring import exact_match, extractor, filtered, judge, likeliest
from .statistics import Interval, bootstrap, standard_error, wilson
from .suite import LoadedSuite, Task
from .target import Target
from .tasks import TaskItem

BATCH = 16
"""Items scored in one request: few enough that a kill loses little."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Subject:
    """The model that a report is about."""

    reference: Reference
    name: str


class Evaluation:
    """One model on one suite."""

    def __init__(self, loaded: LoadedSuite, target: Target, log: ResultLog, progress: Progress) -> None:
        self.loaded = loaded
        self.suite = loaded.suite
        self.target = target
        self.log = log
        self.progress = progress
        self.total = sum(map(len, loaded.items.values())) + self._plan_size()
        self.done = 0
        self._kinds = {
            "multiple_choice": self._multiple_choice, "generation": self._generation, "code": self._code,
        }  # fmt: skip

    def _plan_size(self) -> int:
        size = self.suite.latency.requests if self.suite.latency else 0
        if self.suite.stability:
            size += len(self._stability_items()) * self.suite.stability.repeats
        return size

    async def run(self) -> None:
        """Does everything that the log does not hold yet."""
        self.target.must_be_able_to_run(self.suite)
        if self.log.get("start") is None:
            self.log.put("start", at=time.time())
        for task in self.suite.tasks:
            await self._kinds[task.kind](task)
        if self.suite.latency:
            await self._latency()
        if self.suite.stability:
            await self._stability()
        if self.log.get("end") is None:
            self.log.put("end", at=time.time())
        self.log.sync()

    def _advance(self, what: str, count: int = 1) -> None:
        self.done += count
        self.progress(what, self.done, self.total)

    async def _multiple_choice(self, task: Task) -> None:
        items = [item for item in self.loaded.items[task.name] if not self._known(task, item)]
        self._advance(task.name, len(self.loaded.items[task.name]) - len(items))
        for start in range(0, len(items), BATCH):
            batch = items[start : start + BATCH]
            scores = await self.target.score(batch, task.choice_prefix)
            for item, logprobs in zip(batch, scores, strict=True):
                lengths = [len(choice) for choice in item.choices]
                self.log.put(
                    _key(task, item),
                    choice=likeliest(logprobs),
                    choice_norm=likeliest(logprobs, lengths),
                    logprobs=[sum(choice) for choice in logprobs],
                )
            self._advance(task.name, len(batch))

    async def _generation(self, task: Task) -> None:
        extract = extractor(task.extract)
        for item in self.loaded.items[task.name]:
            if not self._known(task, item):
                answer = await self.target.generate(
                    item, max_tokens=task.max_tokens, seed=self.suite.seed, stop=task.stop
                )
                if task.score == "exact_match":
                    found, expected = filtered(answer.text, task.filters), item.answer
                    score = exact_match(found, expected, **task.exact_match)
                else:
                    found, expected = extract(answer.text), extract(item.answer) or item.answer
                    score = judge(task.score, found, expected)
                self.log.put(
                    _key(task, item), text=answer.text, answer=found, expected=expected, score=score,
                    seconds=answer.timing.total_s,
                )  # fmt: skip
            self._advance(task.name)

    async def _code(self, task: Task) -> None:
        """Draws programs and runs each with its item's tests."""
        for item in self.loaded.items[task.name]:
            for number in range(task.samples):
                key = f"{_key(task, item)}/{number}"
                if self.log.get(key) is None:
                    answer = await self.target.generate(
                        item, max_tokens=task.max_tokens, temperature=task.temperature,
                        seed=self.suite.seed + number, stop=task.stop,
                    )  # fmt: skip
                    program = program_of(item.question, answer.text, item.answer, item.entry_point)
                    outcome = await asyncio.to_thread(sandbox.run, program, seconds=task.time_limit_s)
                    self.log.put(
                        key, text=answer.text, seconds=answer.timing.total_s, passed=outcome.passed,
                        why=outcome.why,
                    )  # fmt: skip
            drawn = [self.log.rows[f"{_key(task, item)}/{number}"] for number in range(task.samples)]
            self.log.put(
                _key(task, item), answer=drawn[0]["text"], why=drawn[0]["why"], seconds=drawn[0]["seconds"],
                passed=[row["passed"] for row in drawn],
            )  # fmt: skip
            self._advance(task.name)

    def _known(self, task: Task, item: TaskItem) -> bool:
        return self.log.get(_key(task, item)) is not None

    async def _latency(self) -> None:
        plan = self.suite.latency
        assert plan is not None
        items = self._prompts()
        missing = [number for number in range(plan.requests) if self.log.get(f"latency/{number}") is None]
        self._advance("latency", plan.requests - len(missing))
        if missing:
            await self.target.generate(items[0], max_tokens=2)  # the first request of all warms caches

        async def send(number: int) -> Timing:
            item = items[number % len(items)]
            return (await self.target.generate(item, max_tokens=plan.max_tokens)).timing

        def keep(number: int, timing: Timing) -> None:
            self.log.put(f"latency/{number}", **vars(timing))
            self._advance("latency")

        await latency.measure(plan, missing, send, keep, seed=self.suite.seed)

    async def _stability(self) -> None:
        plan = self.suite.stability
        assert plan is not None
        for repeat, seed in enumerate(stability.seeds(plan, self.suite.seed)):
            for number, item in enumerate(self._stability_items()):
                key = f"stability/{number}/{repeat}"
                if self.log.get(key) is None:
                    answer = await self.target.generate(
                        item, max_tokens=plan.max_tokens, temperature=plan.temperature, seed=seed
                    )
                    self.log.put(key, text=answer.text)
                self._advance("stability")

    def _prompts(self) -> list[TaskItem]:
        return [item for items in self.loaded.items.values() for item in items]

    def _stability_items(self) -> list[TaskItem]:
        return self._prompts()[: self.suite.stability.items if self.suite.stability else 0]

    def report(self, subject: Subject, producer: Producer) -> EvalReport:
        """The document made of the results."""
        metrics: list[MetricValue] = []
        items: list[Item] = []
        for task in self.suite.tasks:
            rows = [(item, self.log.rows[_key(task, item)]) for item in self.loaded.items[task.name]]
            metrics += self._metrics(task, rows)
            items += [_item(task, item, row) for item, row in rows]
        return EvalReport(
            producer=producer,
            inputs=[subject.reference],
            model=subject.reference,
            model_name=subject.name,
            suite=self.suite.name,
            suite_version=self.suite.version,
            suite_digest=self.loaded.digest,
            runtime=self.target.process.description,
            started_at=datetime.fromtimestamp(self.log.rows["start"]["at"], UTC),
            ended_at=datetime.fromtimestamp(self.log.rows["end"]["at"], UTC),
            seed=self.suite.seed,
            metrics=metrics,
            latency=self._latency_rows(),
            stability=self._stability_run(),
            items=items,
        )

    def _metrics(self, task: Task, rows: list[tuple[TaskItem, dict[str, Any]]]) -> list[MetricValue]:
        clusters = [item.cluster or item.id for item, _ in rows]
        if task.kind == "code":
            named = {
                f"pass@{k}": [pass_at_k(task.samples, sum(row["passed"]), k) for _, row in rows]
                for k in task.k
            }
        elif task.kind == "generation":
            named = {"accuracy" if task.score != "f1" else "f1": [row["score"] for _, row in rows]}
        else:
            named = {
                "accuracy": [float(row["choice"] == item.right) for item, row in rows],
                "accuracy_norm": [float(row["choice_norm"] == item.right) for item, row in rows],
            }
        return [self._metric(name, task, values, clusters) for name, values in named.items()]

    def _metric(self, name: str, task: Task, values: list[float], clusters: list[str]) -> MetricValue:
        interval = self._interval(values)
        return MetricValue(
            name=name, task=task.name, value=interval.value, n=len(values), low=interval.low,
            high=interval.high, confidence=self.suite.confidence, method=interval.method,
            standard_error=standard_error(values, clusters),
        )  # fmt: skip

    def _interval(self, values: list[float]) -> Interval:
        if all(value in (0.0, 1.0) for value in values):
            return wilson(round(sum(values)), len(values), self.suite.confidence)
        return bootstrap(values, seed=self.suite.seed, confidence=self.suite.confidence)

    def _latency_rows(self) -> list[LatencySummary]:
        fields = ("first_s", "total_s", "tokens", "chunks")
        found = [row for key, row in self.log.rows.items() if key.startswith("latency/")]
        return latency.summarise([Timing(*(row[name] for name in fields)) for row in found])

    def _stability_run(self) -> StabilityRun | None:
        plan = self.suite.stability
        if plan is None:
            return None
        answers = {
            item.id: [self.log.rows[f"stability/{number}/{repeat}"]["text"] for repeat in range(plan.repeats)]
            for number, item in enumerate(self._stability_items())
        }
        return stability.summarise(plan, self.suite.seed, answers, {})


def _key(task: Task, item: TaskItem) -> str:
    return f"item/{task.name}/{item.id}"


def _item(task: Task, item: TaskItem, row: dict[str, Any]) -> Item:
    if task.kind == "code":
        answer, expected, correct = row["answer"], row["why"] or "its tests pass", row["passed"][0]
    elif task.kind == "generation":
        answer, expected, correct = row["answer"], row["expected"], row["score"] >= 0.5
    else:
        chosen = row["choice" if task.primary == "accuracy" else "choice_norm"]
        answer, expected, correct = item.choices[chosen], item.choices[item.right], chosen == item.right
    seconds = row.get("seconds")
    return Item(
        task=task.name, item=item.id, prompt_sha256=item.prompt_digest, answer=answer, expected=expected,
        correct=correct, latency_ms=None if seconds is None else round(seconds * 1000, 3),
    )  # fmt: skip
