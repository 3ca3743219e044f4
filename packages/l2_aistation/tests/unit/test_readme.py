"""What the README shows works: its Python runs, its job-spec is one, its commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from l2_aistation.cli import app
from l2_aistation.service.jobs import check_spec
from typer.testing import CliRunner

README = Path(__file__).resolve().parents[2] / "README.md"
TEXT = README.read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def commands() -> list[list[str]]:
    """The words of every `aistation` command shown, without comments and assignments."""
    found = []
    for line in "\n".join(blocks("console")).splitlines():
        for part in line.removeprefix("$ ").partition("#")[0].split(";"):
            words = shlex.split(re.sub(r"\$\([^)]*\)", "X", part))
            while words and "=" in words[0]:
                words.pop(0)
            if words and words[0] == "aistation":
                found.append(words[1:])
    return found


def test_the_python_blocks_run(tmp_path: Path) -> None:
    code = "\n".join(blocks("python"))
    assert "JobSpec" in code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", blocks("yaml"))
def test_the_job_specs_are_such(text: str) -> None:
    assert check_spec(yaml.safe_load(text)).demand.count == 2


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_the_commands_exist(words: list[str]) -> None:
    names = [word for word in words if re.fullmatch(r"[a-z]+(-[a-z]+)*", word)][:2]
    options = [word for word in words if word.startswith("--")]
    for depth in (names, names[:1]):
        shown = CliRunner().invoke(app, [*depth, "--help"], env={"COLUMNS": "200"})
        if shown.exit_code == 0:
            break
    assert shown.exit_code == 0
    for option in options:
        assert option in shown.output
