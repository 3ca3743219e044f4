"""What the stages of the demo share: folders, documents, timings, processes to end."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l2_aistation._kit.tokens import TokenStore
from rich.console import Console

from integration_tests.processes import Guard, end
from tools.bootstrap import cache_home

ROOT = Path(__file__).resolve().parent.parent.parent
TENANT = "demo"


@dataclass
class Demo:
    """One run.  `shared` is the tenant's storage segment as the host sees it."""

    machines: str
    root: Path
    seed: int
    console: Console
    stack: ExitStack = field(default_factory=ExitStack)
    guard: Guard = field(default_factory=Guard)
    documents: dict[str, Path] = field(default_factory=dict)
    times: list[tuple[str, float]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home, self.shared = self.root / "home", self.root / "storage" / TENANT
        self.cache = cache_home()  # what is kept between runs
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in (self.shared, self.folder("documents"), self.folder("logs"), self.home):
            folder.mkdir(parents=True, exist_ok=True)
        os.environ["OGAI_HOME"] = str(self.home)

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
        began = time.monotonic()
        self.console.print(f"[bold]{title}[/bold]")
        with self.console.status(title):
            yield
        self.times.append((title, time.monotonic() - began))
        self.console.print(f"  done in {self.times[-1][1]:.1f} s")

    def public_key(self) -> str:
        """The key that opens the tenant's nodes, made for this run."""
        key = self.folder("ssh") / "id_ed25519"
        if not key.exists():
            key.parent.mkdir(mode=0o700)
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        return key.with_suffix(".pub").read_text().strip()

    def say(self, text: str) -> None:
        self.console.print(f"  {text}", highlight=False)

    def process(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        """Starts a server that ends with the demo; its output goes to logs/NAME.log."""
        child = self.guard.start(name, command, environment, self.folder("logs") / f"{name}.log")
        self.stack.callback(end, child)
