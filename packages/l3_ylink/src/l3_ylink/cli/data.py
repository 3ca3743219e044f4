"""`ylink data`: run a recipe, look at what it did, ask what would change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from l3_ylink._kit.command_line import err, new_app, out, show, show_json
from l3_ylink._kit.problems import BadInput
from l3_ylink.settings import Settings

from .engine import Place, engine_for

if TYPE_CHECKING:
    from l3_ylink.datakit.explain import Explanation
    from l3_ylink.datakit.run import Progress as Tell
    from l3_ylink.documents import StepCount

app = new_app("Clean and tokenise text: run a recipe, explain each decision, try other thresholds.")

MOST_REASONS = 8
JSON = typer.Option(False, "--json", help="print JSON")
FOLDER = typer.Argument(help="the --out folder of a run")


@app.command("run")
def run(
    *,
    recipe: Path = typer.Argument(help="the recipe: a YAML file, or the name of one that is shipped (mdfs)"),
    input_folder: Path = typer.Option(..., "--input", help="folder with the documents"),
    out_folder: Path = typer.Option(..., "--out", help="folder for the data set; the same run again goes on"),
    workers: int | None = typer.Option(None, help="processes; the result is the same for any number"),
    engine: str = typer.Option("local", help="what does the work: local, slurm, ray or jobs"),
    runner: str = typer.Option("local", help="what runs the jobs of --engine jobs: local or aistation"),
    runner_url: str | None = typer.Option(None, help="aistation's address; default: this machine's"),
    runner_token_file: Path | None = typer.Option(None, help="file with aistation's token"),
    queue: str = typer.Option("default", help="aistation's queue"),
    shared: Path | None = typer.Option(None, help="folder that all nodes mount; input and output lie in it"),
    name: str | None = typer.Option(None, help="name on the page; the recipe's name by default"),
    as_json: bool = JSON,
) -> None:
    """Makes a data set from a folder: extract, clean, judge, find duplicates, tokenise."""
    from l3_ylink.datakit.explain import stored_funnel
    from l3_ylink.datakit.recipe import load_recipe
    from l3_ylink.datakit.recipes import find_recipe
    from l3_ylink.datakit.run import run_recipe
    from l3_ylink.store.shelf import Shelf

    settings = Settings.load(workers=workers)
    loaded = load_recipe(find_recipe(recipe))
    place = Place(engine, runner, runner_url, runner_token_file, queue, shared)
    with engine_for(place, settings) as mapper, _progress(quiet=as_json) as tell:
        done = run_recipe(
            loaded,
            input_folder=input_folder,
            out=out_folder,
            workers=settings.workers,
            engine=mapper,
            block_bytes=settings.block_bytes,
            progress=tell,
        )
    Shelf(settings.state_dir).add(
        kind="data", name=name or loaded.name, path=out_folder, tenant=settings.tenant
    )
    manifest = done.manifest
    if as_json:
        show_json(
            {
                "manifest": manifest.as_json(),
                "digest": manifest.digest(),
                "blocks": done.blocks,
                "reused": done.reused,
                "alarms": stored_funnel(out_folder)[1],
            }
        )
        return
    _funnel(manifest.steps)
    tokens = "" if manifest.tokens is None else f", {manifest.tokens} tokens"
    again = f" ({done.reused} of {done.blocks} blocks were there already)" if done.reused else ""
    out.print(f"{manifest.rows} documents kept{tokens}{again}")
    _alarms(out_folder)
    if done.unlisted:
        out.print(f"{done.unlisted} files belong to no source of the recipe and were not read")
    out.print(f"manifest {out_folder / 'dataset-manifest.json'}  {manifest.digest()}", soft_wrap=True)
    out.print(f"report   {done.report}", soft_wrap=True)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Tell]:
    """A progress bar on stderr; nothing when stderr is no terminal or JSON is asked for."""
    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def tell(stage: str, done: int, whole: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=whole)
            bars.update(tasks[stage], completed=done, total=whole)

        yield tell


def _funnel(steps: list[StepCount]) -> None:
    rows = [
        {
            "step": step.step,
            "seen": step.seen,
            "kept": step.kept,
            "changed": step.changed or None,
            "dropped": _reasons(step.dropped) or None,
        }
        for step in steps
    ]
    show(rows, ("step", "seen", "kept", "changed", "dropped"), as_json=False)


def _alarms(folder: Path) -> None:
    """Steps that took nearly all of a source."""
    from l3_ylink.datakit.explain import stored_funnel

    for alarm in stored_funnel(folder)[1]:
        out.print(
            f"ALARM: {alarm['step']} dropped {alarm['dropped']} of {alarm['seen']} documents of the source "
            f"{alarm['source']}: look at its settings",
            markup=False,
            soft_wrap=True,
        )


@app.command("recipe")
def recipe(
    name: str | None = typer.Argument(None, help="a shipped recipe; without one the names are listed"),
) -> None:
    """Prints a recipe that comes with the package, to be copied and changed."""
    from l3_ylink.datakit.recipes import shipped

    known = shipped()
    if name is None:
        show([{"name": found} for found in known], ("name",), as_json=False)
    elif name in known:
        typer.echo(known[name].read_text("utf-8"), nl=False)
    else:
        raise BadInput(f"there is no recipe {name!r}", field="name", do=f"take {', '.join(known)}")


def _reasons(dropped: dict[str, int]) -> str:
    """The reasons that took most, and how many more there are."""
    most = sorted(dropped.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = [f"{reason} {count}" for reason, count in most[:MOST_REASONS]]
    return ", ".join(
        [*shown, f"{len(most) - MOST_REASONS} more reasons"] if len(most) > MOST_REASONS else shown
    )


@app.command("report")
def report(folder: Path = FOLDER, as_json: bool = JSON) -> None:
    """Writes the funnel report (HTML) again from the stored columns and prints where it is."""
    from l3_ylink.datakit.explain import report_again

    path, manifest = report_again(folder)
    if as_json:
        show_json({"report": str(path), "steps": [step.model_dump() for step in manifest.steps]})
        return
    _funnel(manifest.steps)
    _alarms(folder)
    out.print(f"report {path}", soft_wrap=True)


@app.command("explain")
def explain(
    folder: Path = FOLDER,
    document: str = typer.Argument(help="id of a document, or an ending that only its id has"),
    as_json: bool = JSON,
) -> None:
    """Why a document was kept or dropped: every rule, its value and its bound; where it is from and went."""
    from l3_ylink.datakit.explain import explain as look

    found = look(folder, document)
    if as_json:
        show_json({**asdict(found), "checks": [check._asdict() for check in found.checks]})
        return
    fate = "kept" if found.kept else f"dropped by {found.step}: {found.reason}"
    out.print(f"{found.id}: {fate}", markup=False)
    if found.other:
        out.print(f"its like that was kept: {found.other} (similarity {found.value})", markup=False)
    rows = [{**check._asdict(), "held": "yes" if check.held else "NO"} for check in found.checks]
    show(rows, ("step", "rule", "signal", "value", "bound", "threshold", "held"), as_json=False)
    _lineage(found)


def _lineage(found: Explanation) -> None:
    """Where a document is from, what changed it and where it went."""
    past = found.lineage
    if past is None:
        return
    part = "" if (past.start, past.end) == (0, -1) else f", from {past.start} on"
    lines = [f"from {past.path} ({past.bytes} bytes{part}) of {past.source}, {past.licence}"]
    changed = ", ".join(step["step"] for step in past.steps if step["what"] == "changed")
    if changed:
        lines.append(f"changed by {changed}")
    lines += [f"taken out by {cut['step']}: {cut['end'] - cut['start']} characters" for cut in found.cuts]
    if past.shard is not None:
        tokens = "" if past.token_document is None else f", document {past.token_document} of the tokens"
        lines.append(f"is row {past.row} of {past.shard}{tokens}")
    lines.append(f"by ylink {past.version}, signals {past.signals_version}, recipe {past.recipe}")
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


@app.command("documents")
def documents(
    folder: Path = FOLDER,
    step: str | None = typer.Option(None, help="only those dropped by this step"),
    reason: str | None = typer.Option(None, help="only those dropped for this reason"),
    kept: bool | None = typer.Option(None, "--kept/--dropped", help="only kept, or only dropped ones"),
    offset: int = typer.Option(0, min=0, help="how many to pass over"),
    most: int = typer.Option(50, min=1, help="how many to print"),
    as_json: bool = JSON,
) -> None:
    """Lists documents with what was decided of them."""
    from l3_ylink.datakit.explain import documents as select

    count, rows = select(folder, step=step, reason=reason, kept=kept, offset=offset, most=most)
    if as_json:
        show_json({"count": count, "documents": rows})
        return
    show(rows, ("id", "kept", "step", "reason", "value", "threshold", "other"), as_json=False)
    out.print(f"{len(rows)} of {count}")


@app.command("whatif")
def whatif(
    folder: Path = FOLDER,
    changes: list[str] = typer.Option(
        ..., "--set", help="STEP.SETTING=VALUE, e.g. near.threshold=0.9; may be repeated"
    ),
    as_json: bool = JSON,
) -> None:
    """What other thresholds would keep and drop, from stored columns: nothing is computed or written."""
    from l3_ylink.datakit.explain import whatif as ask

    pairs = [change.partition("=") for change in changes]
    wrong = next((change for change, (_, mark, _) in zip(changes, pairs, strict=True) if not mark), None)
    if wrong is not None:
        raise BadInput(f"{wrong!r} has no '='", field="--set", do="write --set STEP.SETTING=VALUE")
    found = ask(folder, {path: value for path, _, value in pairs})
    if as_json:
        show_json(json.loads(json.dumps(asdict(found), default=lambda value: value.model_dump())))
        return
    rows = [
        {"step": after.step, "kept before": before.kept, "kept after": after.kept}
        for before, after in zip(found.before, found.after, strict=True)
    ]
    show(rows, ("step", "kept before", "kept after"), as_json=False)
    out.print(f"{found.kept_before} kept before, {found.kept_after} after")
    for mark in found.now_kept[:10]:
        out.print(f"+ {mark}", markup=False)
    for row in found.now_dropped[:10]:
        out.print(f"- {row['id']}  {row['reason']}", markup=False)


@app.command("rules")
def rules(as_json: bool = JSON) -> None:
    """Every quality rule with its signal and its bound by kind of language."""
    from l3_ylink.datakit.quality.rules import RULES

    rows = [rule._asdict() for rule in RULES]
    show(rows, ("name", "rule_set", "signal", "bound", "en", "zh", "other"), as_json=as_json)
