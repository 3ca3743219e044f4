"""What the stages of the demo share: folders, documents, timings, processes to end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l2_aistation._kit.tokens import TokenStore
from rich.console import Console

TENANT = "demo"


@dataclass
class Demo:
    """One run.  `shared` is the tenant's storage segment as the host sees it."""

    machines: str
    root: Path
    seed: int
    console: Console
    stack: ExitStack = field(default_factory=ExitStack)
    documents: dict[str, Path] = field(default_factory=dict)
    times: list[tuple[str, float]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        end_leftovers(self.root)
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in (self.shared, self.folder("documents"), self.folder("logs"), self.home):
            folder.mkdir(parents=True, exist_ok=True)
        os.environ["OGAI_HOME"] = str(self.home)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def shared(self) -> Path:
        return self.root / "storage" / TENANT

    def folder(self, name: str) -> Path:
        return self.root / name

    def document(self, name: str) -> Path:
        """Where the document `name` belongs; it becomes a link of the report's chain."""
        self.documents[name] = self.folder("documents") / f"{name}.json"
        return self.documents[name]

    def token(self, name: str) -> str:
        """A token of the demo's tenant, as an operator would hand it out."""
        return TokenStore(self.home / "tokens.json").create(name, TENANT)

    @contextmanager
    def stage(self, title: str) -> Iterator[None]:
        """Times a stage and shows that it runs."""
        start = time.monotonic()
        self.console.print(f"[bold]{title}[/bold]")
        with self.console.status(title):
            yield
        self.times.append((title, time.monotonic() - start))
        self.console.print(f"  done in {self.times[-1][1]:.1f} s")

    def say(self, text: str) -> None:
        self.console.print(f"  {text}", highlight=False)

    def process(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> None:
        """Starts a server that ends with the demo; its output goes to logs/NAME.log."""
        with open(self.folder("logs") / f"{name}.log", "wb") as log:
            child = subprocess.Popen(
                command,
                env={**os.environ, **(environment or {})},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        remember(self.root, child.pid)
        self.stack.callback(end_session, child.pid)


def remember(root: Path, pid: int) -> None:
    """Notes a process on disk, so that the next run can end it if this one is killed."""
    with open(root / "processes.jsonl", "a", encoding="utf-8") as stream:
        stream.write(json.dumps([pid, started(pid)]) + "\n")


def started(pid: int) -> str | None:
    """The kernel's start time of a process: with the pid it names one process for ever."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def end_leftovers(root: Path) -> None:
    """Ends the servers of a run that was killed."""
    notes = root / "processes.jsonl"
    for line in notes.read_text().splitlines() if notes.exists() else ():
        pid, start = json.loads(line)
        if start is not None and started(pid) == start:
            end_session(pid)


def end_session(pid: int) -> None:
    """TERM, then KILL after five seconds, to everything that a server started."""
    for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0)):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return
        limit = time.monotonic() + patience_s
        while time.monotonic() < limit and _alive(pid):
            time.sleep(0.05)


def _alive(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
