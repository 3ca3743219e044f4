"""Crawling from Python and the command line: a child process does it, this one watches."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, Conflict, Failed, Problem, Unavailable
from l3_ylink.backends.local import TIED

from .plan import LOG, PLAN, STATE, CrawlPlan

NEEDS = ("scrapy", "protego", "warcio")
Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Crawl:
    """What a crawl made: WARC files in `folder`, and how it went."""

    folder: Path
    number: int
    finished: bool
    outcomes: dict[str, int]
    refused: dict[str, dict[str, Any]]
    hosts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def files(self) -> list[Path]:
        """Its WARC files; those of earlier crawls into the same folder have other numbers."""
        return sorted(self.folder.glob(f"crawl-{self.number:04d}-*.warc.gz"))


def crawl(plan: CrawlPlan, out: Path, tell: Tell = lambda _: None) -> Crawl:
    """Crawls into a folder of WARC files.

    The same call after a kill goes on where it was; after an end it crawls again, asking each page whether
    it has changed.  Raises `Unavailable` without the extra `gather`, `Conflict` while another process crawls
    into `out`, `BadInput` for a folder of something else, `Failed` on a full disk.
    """
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(f"{', '.join(missing)} is not installed", do="pip install 'l3-ylink[gather]'")
    _check(out)
    (out / STATE).mkdir(parents=True, exist_ok=True)
    with _alone(out):
        atomic_write(out / STATE / PLAN, plan.model_dump_json(indent=1))
        made = _watched(out, tell)
    return Crawl(out, made["crawl"], made["finished"], made["outcomes"], made["refused"], made["hosts"])


def _check(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise BadInput("is a file", field=str(out), do="choose a folder as --out")
    if out.is_dir() and not (out / STATE).exists() and any(out.iterdir()):
        raise BadInput("is not empty and holds no crawl", field=str(out), do="choose another --out")


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    with open(out / STATE / "lock", "a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Conflict(
                f"another process crawls into {out}", do="wait for it, or take another --out"
            ) from error
        yield


def _watched(out: Path, tell: Tell) -> dict[str, Any]:
    """Runs the program to its end; the last line says how it went."""
    tied = [sys.executable, "-I", "-S", str(TIED), str(os.getpid())]
    program = [*tied, sys.executable, "-m", f"{__package__}.program", str(out)]
    last: dict[str, Any] = {}
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
    ) as process:  # an interrupt at the terminal reaches it once, from here
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last = json.loads(line)
                if "progress" in last:
                    tell(last["progress"])
        except BaseException:
            process.send_signal(signal.SIGTERM)  # it writes down what it has
            raise
    if "summary" in last:
        return dict(last["summary"])
    if "problem" in last:
        about = last["problem"]
        problem = Failed(about["title"], why=about.get("detail", ""), do=about.get("try", ""))
        problem.exit_code = last["exit_code"]
        raise problem
    raise _died(out, process.returncode)


def _died(out: Path, code: int) -> Problem:
    log = out / STATE / LOG
    lines = log.read_text("utf-8", "replace").strip().splitlines() if log.exists() else []
    return Failed(
        f"the crawl ended with code {code}",
        why=lines[-1] if lines else "",
        do=f"look into {log}; the same command goes on where it was",
    )
