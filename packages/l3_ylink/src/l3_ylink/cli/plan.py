"""`ylink plan`: lay a model out over ranks before anything runs."""

from __future__ import annotations

from pathlib import Path

import typer

from l3_ylink._kit.command_line import new_app, out, show, show_json
from l3_ylink._kit.problems import BadInput
from l3_ylink.settings import Settings

app = new_app("Lay a model out over ranks: what fits, what it costs, and why.")

JSON = typer.Option(False, "--json", help="print JSON")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@app.callback()
def plan() -> None:
    """Lay a model out over ranks: what fits, what it costs, and why."""


@app.command("pretrain")
def pretrain(
    *,
    model: str = typer.Option(..., help="shape: a YAML file or a preset (ylink plan shapes)"),
    world_size: int = typer.Option(..., help="ranks"),
    steps: int = typer.Option(..., help="optimizer steps"),
    out_file: Path = typer.Option(Path("parallel-plan.json"), "--out", help="file for the plan"),
    data: Path | None = typer.Option(None, help="dataset-manifest.json: its tokenizer sets the vocabulary"),
    global_batch: int | None = typer.Option(None, help="sequences a step; default 4 a data-parallel rank"),
    micro_batch: int | None = typer.Option(None, help="sequences at a time on a rank; default: what fits"),
    zero_stage: int = typer.Option(1, help="ZeRO stage, 0 to 3"),
    tensor_parallel: int = typer.Option(1, help="ranks that share each matrix"),
    pipeline_parallel: int = typer.Option(1, help="ranks that share the layers"),
    dtype: str = typer.Option("float32", help="float32, bfloat16 or float16"),
    recompute: str = typer.Option("none", help="none, or full: activations made again in the backward pass"),
    learning_rate: float | None = typer.Option(None, help="highest learning rate; default by model size"),
    memory: str | None = typer.Option(None, help="limit a rank, e.g. 24GiB"),
    engine: str = typer.Option("deepspeed", help="deepspeed or megatron"),
    as_json: bool = JSON,
) -> None:
    """Plans a pretraining run and writes parallel-plan.json."""
    from l3_ylink.store.shelf import Shelf
    from l3_ylink.trainkit.planning import make_plan, read_shape
    from l3_ylink.trainkit.tokens import fitted_to_data

    shape, inputs, tokens = fitted_to_data(read_shape(model), data)
    made = make_plan(
        shape,
        world_size,
        steps=steps,
        global_batch=global_batch,
        micro_batch=micro_batch,
        zero_stage=zero_stage,
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        dtype=dtype,
        recompute=recompute,
        learning_rate=learning_rate,
        memory_limit_bytes=None if memory is None else byte_count(memory),
        engine=engine,
        inputs=inputs,
        tokens=tokens,
    )
    digest = made.write(out_file)
    settings = Settings.load()
    Shelf(settings.state_dir).add(kind="plan", name=out_file.stem, path=out_file, tenant=settings.tenant)
    if as_json:
        show_json({"plan": made.as_json(), "digest": digest})
        return
    out.print(f"{made.parameters:,} parameters, {made.steps} steps, learning rate {made.learning_rate:g}")
    for reason in made.reasons:
        out.print(f"  {reason}", markup=False, soft_wrap=True)
    out.print(f"plan {out_file}  {digest}", soft_wrap=True)


@app.command("shapes")
def shapes(as_json: bool = JSON) -> None:
    """The model shapes that are shipped."""
    from l3_ylink.trainkit.planning import parameter_count, preset_names, read_shape

    rows = []
    for name in preset_names():
        shape = read_shape(name)
        rows.append({"name": name, "parameters": f"{parameter_count(shape):,}", **shape.model_dump()})
    show(rows, ("name", "parameters", "layers", "hidden", "heads", "kv_heads", "sequence"), as_json=as_json)


def byte_count(text: str) -> int:
    """`24GiB`, `512M` or `1000` as bytes (powers of 1024)."""
    word = text.strip().upper().removesuffix("IB").removesuffix("B")
    number, unit = (word[:-1], word[-1]) if word and word[-1] in UNITS else (word, "")
    try:
        count = float(number)
    except ValueError:
        count = 0
    if (not 0 < count < 1e6 and unit) or count <= 0:
        raise BadInput(f"{text!r} is no amount of memory", field="--memory", do="write e.g. 24GiB")
    return int(count * UNITS[unit])
