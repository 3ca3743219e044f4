"""What the READMEs and the documentation show works: commands parse, imports resolve, examples run."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from mktestdocs import check_md_file

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "infra-os": "l0_infra_os",
    "podsys": "l1_podsys",
    "aistation": "l2_aistation",
    "ylink": "l3_ylink",
    "mmodel": "l4_mmodel",
}
FRONT = sorted(ROOT.glob("README*.md"))
PAGES = [*FRONT, *sorted(ROOT.glob("packages/*/README.md")), *sorted(ROOT.glob("docs/*.md"))]


def blocks(path: Path, *languages: str) -> list[str]:
    """The fenced blocks of these languages."""
    fences = re.split(r"^```(.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)
    return [text for language, text in zip(fences[1::4], fences[2::4], strict=False) if language in languages]


def commands_of(path: Path) -> list[str]:
    """The command lines of our programs, in fenced blocks and, of the front pages, in code spans."""
    text = "\n".join(blocks(path, "", "bash", "console", "sh", "text"))
    if path in FRONT:
        text += "\n" + "\n".join(re.findall(r"`([^`\n]+)`", path.read_text("utf-8")))
    text = text.replace("\\\n", " ")
    lines = [re.split(r" [#|>&]|;", line.removeprefix("$ "))[0].strip() for line in text.splitlines()]
    return sorted(
        {line for line in lines if line.split(" ")[0] in COMMANDS and " " in line and "…" not in line}
    )


CASES = [pytest.param(line, id=f"{path.parent.name}: {line}") for path in PAGES for line in commands_of(path)]


@pytest.mark.parametrize("path", [path for path in PAGES if "README" in path.name], ids=str)
def test_there_are_commands(path: Path) -> None:
    assert commands_of(path)


@pytest.mark.parametrize("line", CASES)
def test_a_command_parses(line: str) -> None:
    program, *words = shlex.split(line)
    command: Any = typer.main.get_command(importlib.import_module(f"{COMMANDS[program]}.cli").app)
    if {"--help", "--version"} & set(words):
        return
    context = command.make_context(program, list(words))
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, list(words), parent=context)
    assert command.callback is not None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_imports_of_python_examples_resolve(path: Path) -> None:
    for block in blocks(path, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = importlib.import_module(node.module)
                assert all(hasattr(module, name.name) for name in node.names), ast.unparse(node)


def test_the_examples_of_the_documentation_run() -> None:
    for path in sorted(ROOT.glob("docs/*.md")):
        check_md_file(fpath=path, lang="python")
