"""Generating: rounds of jobs side by side, joined by their keys; killed at any point, the same call goes on.

The folder of a run:

    train.jsonl                rows that were kept: id, messages (OpenAI), meta
    rejected.jsonl             all others, with the reason and what shows it
    dataset-manifest.json      rows, reasons, digests: fine-tuning reads it
    .generate/                 journal of finished jobs, cache of answers, recipe
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from l3_ylink import __version__
from l3_ylink._kit.documents import Producer, digest_of_file
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, Conflict
from l3_ylink._kit.sandbox import must_be_there
from l3_ylink.datakit.documents.store import disk
from l3_ylink.documents import DatasetManifest, Shard, Source, StepCount

from .base import Job, Made, Talk, Unfit
from .caller import Caller, Cost, Spent
from .client import Refused
from .finish import answered, judged
from .journal import Journal
from .recipe import GenerateRecipe
from .similar import Pool

STATE = ".generate"
TRAIN, REJECTED, MANIFEST = "train.jsonl", "rejected.jsonl", "dataset-manifest.json"
TOGETHER = 32
"""Jobs after which it looks whether there are enough rows."""

Tell = Callable[[int, int, Cost], None]


@dataclass(frozen=True)
class Generated:
    """What a run made.  `ended` says why it stopped: done, rows, or the bound of the budget."""

    folder: Path
    manifest: DatasetManifest
    ended: str
    kept: int
    rejected: dict[str, int]
    cost: Cost
    cached: int = 0


@dataclass
class _State:
    """A run in memory."""

    recipe: GenerateRecipe
    caller: Caller
    judge: Caller | None
    journal: Journal
    tell: Tell
    pool: Pool
    kept: list[Made] = field(default_factory=list)
    rejected: list[Made] = field(default_factory=list)


def generate(
    recipe: GenerateRecipe,
    *,
    input_folder: Path,
    out: Path,
    tell: Tell = lambda _kept, _wanted, _cost: None,
) -> Generated:
    """Makes rows until there are enough, the method has no more, or the budget is spent.

    The same call after a kill, or with a larger budget, goes on; nothing is asked or paid twice.
    Raises `BadInput`, `Conflict` while another process writes to `out`, `Unavailable` when the model stays
    away or the sandbox is missing, `Failed` on a full disk.
    """
    recipe.method.prepare(input_folder, recipe.seed)
    if recipe.verify is not None:
        must_be_there()
    with disk(out), _alone(out):
        _same_recipe(out, recipe)
        caller = Caller(recipe.model, out / STATE / "answers.sqlite", recipe.budget, base=input_folder)
        judge = _judge(recipe, out, input_folder, caller)
        journal = Journal(out / STATE / "journal.jsonl")
        try:
            state = _State(recipe, caller, judge, journal, tell, Pool(recipe.method.known()))
            ended = _rounds(state)
            return _written(out, state, ended)
        except sqlite3.OperationalError as error:
            why = errno.ENOSPC if "disk is full" in str(error) else errno.EIO
            raise OSError(why, str(error)) from error
        finally:
            journal.close()
            caller.close()
            if judge is not None and judge is not caller:
                judge.close()


def _judge(recipe: GenerateRecipe, out: Path, base: Path, caller: Caller) -> Caller | None:
    if recipe.judge is None:
        return None
    if recipe.judge.model is None:
        return caller
    return Caller(recipe.judge.model, out / STATE / "judged.sqlite", recipe.budget, base=base)


def _rounds(state: _State) -> str:
    """Does round after round; returns why it ended."""
    recipe, number = state.recipe, 0
    while True:
        jobs = recipe.method.jobs(number, state.kept, recipe.rows)
        if not jobs:
            return "rows" if len(state.kept) >= recipe.rows else "done"
        for start in range(0, len(jobs), TOGETHER):
            some = jobs[start : start + TOGETHER]
            bound = _done(state, some)
            for job in some:
                for made in state.journal.done.get(job.key, []):
                    _sift(state, made)
            if bound or len(state.kept) >= recipe.rows:
                return bound or "rows"
        number += 1


def _sift(state: _State, made: Made) -> None:
    """Keeps a row unless there is one like it; in the order of the jobs, however many threads there were."""
    if not made.reason:
        task = made.messages[0]["content"]
        least = state.recipe.method.LIKE if state.recipe.method.method != "evolve" else 1.0
        found, other = state.pool.nearest(task, least)
        if found:
            made = made.rejected("too_similar", f"{found:.2f}: {other}")
        elif len(state.kept) >= state.recipe.rows:
            made = made.rejected("not_needed")
        else:
            state.pool.add(task)
    (state.rejected if made.reason else state.kept).append(made)


def _done(state: _State, jobs: Sequence[Job]) -> str:
    """Does the jobs that are not in the journal; returns the bound that ended it, or ""."""
    todo = [job for job in jobs if job.key not in state.journal.done]
    with ThreadPoolExecutor(state.recipe.parallel) as threads:
        running = [threads.submit(_do, state, job) for job in todo]
        try:
            for one in as_completed(running):
                one.result()
                state.tell(len(state.kept), state.recipe.rows, state.caller.cost)
        except Spent as spent:
            return str(spent)
        finally:
            for one in running:
                one.cancel()
    return ""


def _do(state: _State, job: Job) -> None:
    """One job, whole: tasks, answers, tests, scores; then its line in the journal."""
    recipe = state.recipe
    talk = Talk(state.caller, f"{recipe.seed}/{job.key}", recipe.sampling, recipe.language)
    try:
        rows = recipe.method.tasks(job, talk)
    except Unfit as unfit:
        rows = [Made(job.key, [], {"method": recipe.method.method}, unfit.reason, unfit.detail)]
    except Refused as refused:
        rows = [Made(job.key, [], {"method": recipe.method.method}, "model_refused", str(refused))]
    state.journal.note(job.key, [_finished(state, made, talk) for made in rows])


def _finished(state: _State, made: Made, talk: Talk) -> Made:
    recipe = state.recipe
    try:
        made = answered(made, talk, recipe.verify)
        if recipe.judge is not None and state.judge is not None:
            asking = Talk(state.judge, f"{recipe.seed}/{made.key}/judge", recipe.sampling, recipe.language)
            made = judged(made, asking, recipe.judge)
        return made
    except Unfit as unfit:
        return made.rejected(unfit.reason, unfit.detail)
    except Refused as refused:
        return made.rejected("model_refused", str(refused))


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    if out.is_dir() and any(out.iterdir()) and not (out / STATE).exists():
        raise BadInput("is not empty and holds no generated rows", field=str(out), do="choose another --out")
    (out / STATE).mkdir(parents=True, exist_ok=True)
    with open(out / STATE / "lock", "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Conflict(
                f"another process writes to {out}", do="wait for it, or take another --out"
            ) from error
        yield


def _same_recipe(out: Path, recipe: GenerateRecipe) -> None:
    path = out / STATE / "recipe.json"
    if path.exists() and orjson.loads(path.read_bytes())["digest"] != recipe.digest():
        raise BadInput(
            "holds rows of another recipe", field=str(out),
            do="choose another --out; only budget, rows and parallel may change when a run goes on",
        )  # fmt: skip
    value: dict[str, Any] = {"digest": recipe.digest(), "recipe": recipe.model_dump(mode="json")}
    atomic_write(path, orjson.dumps(value, option=orjson.OPT_INDENT_2))


def _written(out: Path, state: _State, ended: str) -> Generated:
    """Writes the rows and their manifest; the manifest last."""
    recipe = state.recipe
    (out / MANIFEST).unlink(missing_ok=True)
    good = [{"id": made.key, "messages": made.messages, "meta": made.meta} for made in state.kept]
    bad = [
        {
            "id": made.key,
            "reason": made.reason,
            "detail": made.detail,
            "messages": made.messages,
            "meta": made.meta,
        }
        for made in state.rejected
    ]
    for name, rows in ((TRAIN, good), (REJECTED, bad)):
        atomic_write(
            out / name, b"".join(orjson.dumps(row, option=orjson.OPT_SORT_KEYS) + b"\n" for row in rows)
        )
    path = out / TRAIN
    reasons = dict(sorted(Counter(made.reason for made in state.rejected).items()))
    manifest = DatasetManifest(
        producer=Producer(name="l3-ylink", version=__version__),
        name=recipe.name,
        kind="instructions",
        languages={recipe.language: len(good)},
        columns={"id": "string", "messages": "list<{role, content}>", "meta": "object"},
        shards=[Shard(uri=TRAIN, sha256=digest_of_file(path), bytes=path.stat().st_size, rows=len(good))],
        rows=len(good),
        recipe_digest=recipe.digest(),
        steps=[StepCount(step="generate", seen=len(good) + len(bad), kept=len(good), dropped=reasons)],
        sources=[Source(name=recipe.name, licence=recipe.licence, documents=len(good))],
    )
    manifest.write(out / MANIFEST)
    cost = state.caller.cost
    if state.judge is not None and state.judge is not state.caller:
        cost = cost.plus(state.judge.cost)
    return Generated(out, manifest, ended, len(good), reasons, cost, state.caller.cached)
