"""The README's commands exist: every one parses with the command line that it names."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = {
    "infra-os": "l0_infra_os",
    "podsys": "l1_podsys",
    "aistation": "l2_aistation",
    "ylink": "l3_ylink",
    "mmodel": "l4_mmodel",
}


def commands_of(path: Path) -> list[str]:
    """The command lines of our programs, in fenced blocks and in code spans of tables."""
    text = path.read_text("utf-8")
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    spans = "\n".join(re.findall(r"`([^`\n]+)`", text))
    lines = [line.split(" #")[0].strip() for line in f"{fenced}\n{spans}".splitlines()]
    return sorted(
        {line for line in lines if line.split(" ")[0] in COMMANDS and " " in line and "…" not in line}
    )


CASES = [(path, line) for path in sorted(ROOT.glob("README*.md")) for line in commands_of(path)]


def test_there_are_commands_for_every_layer() -> None:
    assert {line.split()[0] for _, line in CASES} == set(COMMANDS)


@pytest.mark.parametrize(("path", "line"), CASES, ids=lambda value: getattr(value, "name", value))
def test_command_parses(path: Path, line: str) -> None:
    program, *words = shlex.split(line)
    command: Any = typer.main.get_command(importlib.import_module(f"{COMMANDS[program]}.cli").app)
    context = command.make_context(program, list(words), resilient_parsing=False)
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, list(words), parent=context)
    assert command.callback is not None
