"""`ylink train`: carry out a plan, fine-tune a model, look at runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from l3_ylink._kit.command_line import err, new_app, out, show, show_json
from l3_ylink._kit.problems import BadInput, Unavailable
from l3_ylink.settings import Settings

if TYPE_CHECKING:
    from l3_ylink.documents import ModelManifest
    from l3_ylink.ports import JobRunner
    from l3_ylink.trainkit.runs import Run
    from l3_ylink.trainkit.service import OnStep

app = new_app("Pretrain and fine-tune, on this machine or through aistation.")

JSON = typer.Option(False, "--json", help="print JSON")
RUNNER = typer.Option("local", help="local (processes here) or aistation")
URL = typer.Option(None, help="aistation's address; default: this machine's")
TOKEN_FILE = typer.Option(None, help="file with aistation's token; default: this machine's operator")
QUEUE = typer.Option("default", help="aistation's queue")
SHARED = typer.Option(None, help="folder that all nodes mount; plan, data and output lie in it")
OUT = typer.Option(..., "--out", help="folder of the run; the same command goes on after an interruption")
EVERY = typer.Option(10, help="steps between checkpoints")


@app.callback()
def train() -> None:
    """Pretrain and fine-tune, on this machine or through aistation."""


@app.command("pretrain")
def pretrain(
    *,
    plan: Path = typer.Option(..., help="parallel-plan.json"),
    data: Path = typer.Option(..., help="dataset-manifest.json of a tokenised data set, or its folder"),
    out_folder: Path = OUT,
    runner: str = RUNNER,
    runner_url: str | None = URL,
    runner_token_file: Path | None = TOKEN_FILE,
    queue: str = QUEUE,
    shared: Path | None = SHARED,
    name: str = typer.Option("pretrain", help="name of job and model"),
    checkpoint_every: int = EVERY,
    keep: int = typer.Option(2, help="checkpoints to keep"),
    seed: int = typer.Option(0, help="of weights and sample order"),
    one_per_node: bool = typer.Option(False, help="each rank on a node of its own"),
    cpu_cores: float = typer.Option(0.25, help="cores that aistation reserves for each rank"),
    as_json: bool = JSON,
) -> None:
    """Pretrains by a plan with DeepSpeed; writes a model with its manifest."""
    from l3_ylink.documents import ParallelPlan
    from l3_ylink.trainkit.service import train_pretrain

    make = runner_maker(runner, out_folder, runner_url, runner_token_file, queue)
    shared = shared_folder(runner, shared)
    with shown(out_folder, name, ParallelPlan.read(plan).steps, quiet=as_json) as on_step:
        model = train_pretrain(
            plan,
            data,
            out_folder,
            make,
            shared=shared,
            name=name,
            checkpoint_every=checkpoint_every,
            keep=keep,
            seed=seed,
            one_per_node=one_per_node,
            cpu_cores=cpu_cores,
            on_step=on_step,
        )
    print_model(model, out_folder, as_json=as_json)


@app.command("sft")
def sft(
    *,
    base: Path = typer.Option(..., help="folder of the base model (ylink model import-gguf)"),
    data: Path = typer.Option(..., help="dataset-manifest.json of instructions, or its folder"),
    out_folder: Path = OUT,
    runner: str = RUNNER,
    runner_url: str | None = URL,
    runner_token_file: Path | None = TOKEN_FILE,
    queue: str = QUEUE,
    shared: Path | None = SHARED,
    name: str = typer.Option("sft", help="name of job and adapter"),
    steps: int = typer.Option(30, help="optimizer steps"),
    batch: int = typer.Option(8, help="rows a step"),
    rank: int = typer.Option(8, help="rank of the adapter's matrices"),
    targets: str = typer.Option("attention", help="which projections get an adapter: attention or all"),
    learning_rate: float = typer.Option(2e-3, help="highest learning rate"),
    max_length: int = typer.Option(512, help="tokens; longer rows are left out"),
    dtype: str = typer.Option("auto", help="of the frozen base: auto, float32 or bfloat16"),
    checkpoint_every: int = EVERY,
    seed: int = typer.Option(0, help="of adapter, split and order of rows"),
    as_json: bool = JSON,
) -> None:
    """Fine-tunes a LoRA adapter of a base model; writes it with its manifest."""
    from l3_ylink.trainkit.service import train_sft

    make = runner_maker(runner, out_folder, runner_url, runner_token_file, queue)
    shared = shared_folder(runner, shared)
    values = {
        "steps": steps,
        "batch": batch,
        "rank": rank,
        "targets": targets,
        "learning-rate": learning_rate,
        "max-length": max_length,
        "dtype": dtype,
        "seed": seed,
    }
    options = tuple(word for option, value in values.items() for word in (f"--{option}", str(value)))
    with shown(out_folder, name, steps, quiet=as_json) as on_step:
        model = train_sft(
            base,
            data,
            out_folder,
            make,
            shared=shared,
            name=name,
            options=options,
            checkpoint_every=checkpoint_every,
            on_step=on_step,
        )
    print_model(model, out_folder, as_json=as_json)


@app.command("list")
def list_runs(as_json: bool = JSON) -> None:
    """The training runs of this machine, newest first."""
    columns = ("id", "kind", "state", "attempt", "started_at", "folder")
    show([vars(run) for run in known_runs()], columns, as_json=as_json)


@app.command("show")
def show_run(run: str = typer.Argument(help="a run's id, or its folder"), as_json: bool = JSON) -> None:
    """One run: inputs, state, figures and the last steps."""
    from l3_ylink.trainkit.program import read_steps
    from l3_ylink.trainkit.runs import read_run

    found = next((known for known in known_runs() if known.id == run), None) or read_run(Path(run)).seen()
    steps = list(read_steps(Path(found.folder)))
    if as_json:
        show_json({**vars(found), "steps": steps})
        return
    out.print(
        f"{found.id} ({found.kind}) {found.state}, attempt {found.attempt}, in {found.folder}", soft_wrap=True
    )
    for name, value in {**found.inputs, **found.metrics}.items():
        out.print(f"  {name} {value}", markup=False, soft_wrap=True)
    if found.why:
        out.print(found.why, markup=False, soft_wrap=True)
    show(steps[-5:], ("step", "loss", "seconds", "attempt", "at"), as_json=False)


def known_runs() -> list[Run]:
    """The runs on this machine's shelf whose folders are still there, newest first."""
    from l3_ylink._kit.tokens import OPERATOR, SYSTEM_TENANT, Principal
    from l3_ylink.store.shelf import Shelf
    from l3_ylink.trainkit.runs import RUN, read_run

    entries = Shelf(Settings.load().state_dir).entries("run", Principal(SYSTEM_TENANT, OPERATOR, "cli"))
    runs = [read_run(entry.folder).seen() for entry in entries if (entry.folder / RUN).exists()]
    return sorted(runs, key=lambda run: run.started_at, reverse=True)


def shelve(folder: Path, name: str) -> None:
    """Puts a run on the shelf, so that lists and pages find it; a folder without a run is left out."""
    from l3_ylink.store.shelf import Shelf
    from l3_ylink.trainkit.runs import RUN

    if (folder / RUN).exists():
        settings = Settings.load()
        Shelf(settings.state_dir).add(kind="run", name=name, path=folder, tenant=settings.tenant)


def runner_maker(
    kind: str, folder: Path, url: str | None, token_file: Path | None, queue: str
) -> Callable[[int], JobRunner]:
    """What makes the runner for an attempt."""
    if kind == "local":
        from l3_ylink.backends.local import LocalRunner

        return lambda attempt: LocalRunner(folder / "logs", attempt=attempt)
    if kind != "aistation":
        raise BadInput(f"{kind!r} is unknown", field="--runner", do="take local or aistation")
    try:
        from l3_ylink.adapters.l2_aistation import AistationRunner
    except ImportError as error:
        raise Unavailable(f"{error.name} is not installed", do="pip install 'l3-ylink[aistation]'") from error
    try:
        token = token_file.read_text("utf-8").strip() if token_file else None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", field=str(token_file)) from error
    return lambda _attempt: AistationRunner(url, token, queue=queue)


def shared_folder(kind: str, shared: Path | None) -> Path | None:
    """The shared folder; jobs of a platform need one, because nodes mount it elsewhere."""
    if kind == "aistation" and shared is None:
        raise BadInput(
            "is needed with --runner aistation", field="--shared", do="name the folder that all nodes mount"
        )
    return shared


@contextmanager
def shown(folder: Path, name: str, steps: int, *, quiet: bool) -> Iterator[OnStep]:
    """A bar with step and loss on a terminal; the run on the shelf from its first step to its end."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal, transient=True) as bar:
        task = bar.add_task("starting", total=steps)
        on_shelf = False

        def on_step(row: dict[str, Any]) -> None:
            nonlocal on_shelf
            if not on_shelf:
                shelve(folder, name)
                on_shelf = True
            bar.update(task, completed=row["step"], description=f"loss {row['loss']:.3f}")

        try:
            yield on_step
        finally:
            shelve(folder, name)


def print_model(model: ModelManifest, folder: Path, *, as_json: bool) -> None:
    """What a run made."""
    if as_json:
        show_json({"manifest": model.as_json(), "digest": model.digest()})
        return
    metrics = model.training.metrics if model.training else {}
    show(
        [{"metric": name, "value": value} for name, value in metrics.items()],
        ("metric", "value"),
        as_json=False,
    )
    out.print(f"manifest {folder / 'model' / 'model-manifest.json'}  {model.digest()}", soft_wrap=True)
