"""Types the blocks of a README, in order, as a reader would, in a home of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from integration_tests.processes import end, start, wait_for
from tools.bootstrap import cache_home

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300


def blocks(text: str, *languages: str) -> Iterator[tuple[str, str]]:
    """Language and content of each fenced block in one of these languages."""
    fences = re.split(r"^```(.*)\n", text, flags=re.MULTILINE)
    for language, content in zip(fences[1::4], fences[2::4], strict=False):
        if language in languages:
            yield language, content


def commands(language: str, content: str) -> Iterator[str]:
    """The commands of a block: lines (console: after `$ `) with what continues them."""
    if language == "console":
        yield from (part.strip() for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:])
        return
    for line in content.replace("\\\n", " ").splitlines():
        if line.split("#")[0].strip():
            yield line


@dataclass
class Reader:
    """Somebody with an empty home, a shell and the packages installed.

    `words` says what the README's words for the reader's own things are here (patterns and texts, asked
    for when they are needed); `ends` gives the commands that may also end with 1: their answer may be no;
    a command with a part of `left_out` needs what is not here, the world's network above all.
    `serve` goes on in the background, as in a second terminal; `ready` waits for it.
    """

    home: Path
    module: str
    port: int
    words: Mapping[str, str | Callable[[], str]] = field(default_factory=dict)
    ends: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ("…",)
    extra: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], None] = lambda: None
    server: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The reader's environment: nothing of ours but the cache."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OGAI_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        cache = {"OGAI_CACHE": str(cache_home())}
        own = {"PATH": path, "HOME": str(self.home), "COLUMNS": "200"}
        return {**kept, **cache, **self.extra, **own}

    def read(self, path: Path) -> None:
        """Types every block of a README that is marked as one to run."""
        for language, content in blocks(path.read_text("utf-8"), "bash", "console", "python"):
            if language == "python":
                self.run([sys.executable, "-c", self.mine(content)], content)
            else:
                for command in commands(language, content):
                    if not any(part in command for part in self.left_out):
                        self.type(command)

    def type(self, command: str) -> str:
        """One line at the prompt."""
        bare = command if "\n" in command else command.partition(" #")[0]
        parts = [bare] if "\n" in bare else re.split(r"; | && ", bare)
        return "".join(self._one(part.strip()) for part in parts)

    def _one(self, command: str) -> str:
        if command.startswith("pip install "):
            return self.pip_install(
                command.split("#", maxsplit=1)[0].removeprefix("pip install ").strip(" '")
            )
        if re.match(r"[a-z-]+ serve\b", command):
            return self.serve(self.mine(command.split("#", maxsplit=1)[0]).split()[2:])
        return self.run(["bash", "-c", self.mine(command)], command)

    def mine(self, text: str) -> str:
        """The README's words replaced by the reader's."""
        for pattern, word in self.words.items():
            if re.search(pattern, text):
                text = re.sub(pattern, word if isinstance(word, str) else word(), text)
        return text

    def run(self, command: list[str], shown: str) -> str:
        """Runs something that has to end well."""
        done = subprocess.run(
            command, cwd=self.home, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S
        )
        good = (0, 1) if shown.startswith(self.ends or ("\0",)) else (0,)
        assert done.returncode in good, f"{shown}\n{command[-1]}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    def pip_install(self, wanted: str) -> str:
        """The folder and the extras are there; the environment has them installed already."""
        match = re.fullmatch(r"(\S+?)(?:\[(.*)\])?", wanted)
        assert match, wanted
        project = tomllib.loads((ROOT / match[1] / "pyproject.toml").read_text())["project"]
        assert set((match[2] or "").split(",")) - {""} <= set(project["optional-dependencies"]), wanted
        return ""

    def serve(self, options: list[str]) -> str:
        """Starts the layer's server; an earlier one is ended, as by Ctrl-C."""
        self.close()
        log = self.home / "serve.log"
        command = [sys.executable, "-m", self.module, "serve", *options, "--port", str(self.port)]
        self.server = start(command, self.environment, log, folder=self.home)
        wait_for(f"http://127.0.0.1:{self.port}/healthz", log=log)
        self.ready()
        return ""

    def close(self) -> None:
        """Ends the server."""
        if self.server is not None:
            end(self.server)
            self.server = None


def need_lab() -> None:
    """Skips a test where no nspawn machines can be had."""
    from integration_tests.conftest import demo_machines

    if demo_machines() != "nspawn":
        pytest.skip("needs root, systemd-nspawn and mmdebstrap")
