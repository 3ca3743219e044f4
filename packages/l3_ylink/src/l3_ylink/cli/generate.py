"""`ylink data generate`: instructions made by a language model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from l3_ylink._kit.command_line import err, out, show, show_json

if TYPE_CHECKING:
    from l3_ylink.datakit.datagen.caller import Cost
    from l3_ylink.datakit.datagen.run import Tell

JSON = typer.Option(False, "--json", help="print JSON")


def generate(
    recipe: Path = typer.Argument(help="the recipe, a YAML file"),
    input_folder: Path | None = typer.Option(
        None, "--input", help="folder with seeds or documents; default: the recipe's own"
    ),
    out_folder: Path = typer.Option(..., "--out", help="folder for the rows; the same command goes on"),
    as_json: bool = JSON,
) -> None:
    """Makes instructions with a language model: tasks, or questions that cite documents; judged, verified."""
    from l3_ylink.datakit.datagen.recipe import load_generate_recipe
    from l3_ylink.datakit.datagen.run import generate as make

    loaded = load_generate_recipe(recipe)
    with _shown(quiet=as_json) as tell:
        made = make(loaded, input_folder=input_folder or recipe.parent, out=out_folder, tell=tell)
    if as_json:
        about = {
            "kept": made.kept,
            "rejected": made.rejected,
            "ended": made.ended,
            "cost": made.cost._asdict(),
        }
        show_json({**about, "manifest": made.manifest.as_json(), "digest": made.manifest.digest()})
        return
    rows = [{"reason": reason, "rows": count} for reason, count in made.rejected.items()]
    show([{"reason": "kept", "rows": made.kept}, *rows], ("reason", "rows"), as_json=False)
    cost = made.cost
    out.print(
        f"{cost.requests} requests, {cost.prompt + cost.completion} tokens, {cost.money:.4f} spent in all"
    )
    if made.ended in ("requests", "tokens", "money"):
        out.print(f"the budget of {made.ended} is spent: with a larger one the same command goes on")
    path = out_folder / "dataset-manifest.json"
    out.print(f"manifest {path}  {made.manifest.digest()}", soft_wrap=True)


@contextmanager
def _shown(*, quiet: bool) -> Iterator[Tell]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(kept: int, wanted: int, cost: Cost) -> None:
            bar.update(task, completed=kept, total=wanted, description=f"{cost.requests} requests")

        yield tell
