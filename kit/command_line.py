"""What the five command lines have in common: errors, tables, `--json`, `config show`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.table import Table

from .config import LayerSettings
from .documents import json_schema  # noqa: F401  (re-exported for `schema` commands)
from .logs import redact
from .problems import BadInput, Problem

_WIDE = 1000  # what no person looks at is not folded: one line a row for grep and files


def _console(stream: TextIO, *, stderr: bool = False) -> Console:
    fitted = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, highlight=False, width=None if fitted else _WIDE)


out = _console(sys.stdout)
err = _console(sys.stderr, stderr=True)


def new_app(help_text: str) -> typer.Typer:
    """A typer application with this project's habits."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


PATH_ERRORS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
"""What a path on the command line can be wrong with."""


def run(app: typer.Typer) -> None:
    """Runs the application; a `Problem` becomes a clear message and its exit code."""
    try:
        app()
    except Problem as problem:
        report(problem)
        raise SystemExit(problem.exit_code) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except PATH_ERRORS as error:
        if error.filename is None:
            raise
        wrong = BadInput(f"{error.filename}: {error.strerror}", do="check the path and its rights")
        report(wrong)
        raise SystemExit(wrong.exit_code) from error
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


def report(problem: Problem) -> None:
    """Prints a problem to stderr; as JSON where the command line asked for JSON."""
    if "--json" in sys.argv:
        print(json.dumps(problem.as_json(), ensure_ascii=False), file=sys.stderr)
        return
    for number, line in enumerate(redact(str(problem)).splitlines()):
        err.print(("error: " if number == 0 else "  ") + line, markup=False, soft_wrap=True)


def show(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    as_json: bool,
    title: str | None = None,
) -> None:
    """Prints rows as a table, or all of their fields as JSON."""
    rows = list(rows)
    if as_json:
        show_json(rows)
        return
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    out.print(table, markup=False) if rows else out.print("nothing to show")


def show_json(value: Any) -> None:
    """Prints a value as JSON."""
    print(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list | tuple | set):
        return ", ".join(map(str, value))
    return str(value)


def add_config_command(app: typer.Typer, settings: type[LayerSettings]) -> None:
    """Adds `config show`: every setting, its value and where it came from."""
    group = typer.Typer(help="Settings of this layer.", no_args_is_help=True)

    @group.callback()
    def config() -> None:
        """Settings of this layer."""

    @group.command("show")
    def show_config(as_json: bool = typer.Option(False, "--json", help="print JSON")) -> None:
        """Every setting, its value and where it came from."""
        rows = [row._asdict() for row in settings.load().explain()]
        show(rows, ("name", "value", "source"), as_json=as_json)

    app.add_typer(group, name="config")
