"""Carrying out a training run: checks, a job on a runner, the model's manifest at the end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from l3_ylink._kit.documents import Reference
from l3_ylink._kit.problems import BadInput, Failed, NotFound, Problem, Unavailable
from l3_ylink.documents import DatasetManifest, ModelManifest, ParallelPlan, Training
from l3_ylink.models.manifest import read_model, write_manifest
from l3_ylink.ports import CheckpointRequest, JobHandle, JobOutcome, JobRequest, JobRunner

from . import runs
from .program import RESULT, StepReader, loss_curve
from .tokens import open_dataset, read_manifest, tokenizer_file

OnStep = Callable[[dict[str, Any]], None]
POLL_S = 0.25
JOB_RECORD = "ogai.job-record/v1"
PATIENT = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Read when OpenMP is loaded, so it must stand in the environment of a server that loads torch ahead."""


@dataclass(frozen=True)
class Paths:
    """Places of a run as its tasks see them: relative to `shared` when there is a shared folder."""

    shared: Path | None

    def __call__(self, path: Path) -> str:
        """`path` for a task's command line."""
        whole = path.absolute()
        if self.shared is None:
            return str(whole)
        root = self.shared.absolute()
        if not whole.is_relative_to(root):
            raise BadInput(
                f"lies outside the shared folder {root}",
                field=str(path),
                do="put plan, data and output into the folder that all nodes mount",
            )
        return str(whole.relative_to(root))


def train_pretrain(
    plan_file: Path,
    data: Path,
    out: Path,
    runner: Callable[[int], JobRunner],
    *,
    shared: Path | None = None,
    name: str = "pretrain",
    checkpoint_every: int = 10,
    keep: int = 2,
    seed: int = 0,
    one_per_node: bool = False,
    cpu_cores: float = 0.25,
    on_step: OnStep | None = None,
) -> ModelManifest:
    """Pretrains by a plan on a tokenised data set; returns the model's manifest in `out/model`.

    `runner` makes the JobRunner for an attempt's number; `cpu_cores` is what a scheduler reserves for
    each rank.  The same call after an interruption goes
    on from the newest checkpoint.  Raises `BadInput` for inputs that cannot work, before anything
    starts, and `Failed` with the failing rank's words.
    """
    _positive(checkpoint_every=checkpoint_every, keep=keep)
    plan, manifest = ParallelPlan.read(plan_file), read_manifest(data)
    open_dataset(
        data,
        manifest,
        sequence=plan.shape.sequence,
        seed=seed,
        vocabulary=plan.shape.vocabulary,
        verify=True,
    )
    tokenizer_file(data, manifest)
    inputs = {"plan": plan.digest(), "data": manifest.digest(), "seed": str(seed)}
    if done := made_already(out, "pretrain", inputs, name):
        return done
    paths = Paths(shared)
    command = (
        *("python", "-m", "l3_ylink.trainkit.flows.pretrain_deepspeed"),
        *("--plan", paths(plan_file), "--data", paths(data), "--out", paths(out)),
        *("--checkpoint-every", str(checkpoint_every), "--keep", str(keep), "--seed", str(seed)),
    )
    request = JobRequest(
        name=name,
        command=command,
        count=plan.world_size,
        environment={"DS_ACCELERATOR": "cpu", "OGAI_PREIMPORT": "torch,torch._dynamo,deepspeed", **PATIENT},
        checkpoint=CheckpointRequest(paths(out / "checkpoints"), checkpoint_every, keep),
        one_per_node=one_per_node,
        cpu_cores=cpu_cores,
        inputs=(plan.reference(), manifest.reference()),
        data=(manifest.digest(),),
    )
    run = runs.open_run(out, "pretrain", inputs)
    run, outcome = carry_out(run, request, runner, on_step)
    result = _result(out)
    model = write_manifest(
        out / "model",
        name=name,
        type="causal-lm",
        architecture="LlamaForCausalLM",
        parameters=plan.parameters,
        dtype="float32",
        licence=licence_of(manifest),
        inputs=_inputs(manifest.reference(), plan.reference(), outcome),
        training=training(out, result, manifest, plan, outcome),
        languages=sorted(manifest.languages),
    )
    run.ended(runs.COMPLETED, metrics=model.training.metrics if model.training else {}).write()
    return model


def train_sft(
    base: Path,
    data: Path,
    out: Path,
    runner: Callable[[int], JobRunner],
    *,
    shared: Path | None = None,
    name: str = "sft",
    options: tuple[str, ...] = (),
    checkpoint_every: int = 10,
    on_step: OnStep | None = None,
) -> ModelManifest:
    """Fine-tunes a LoRA adapter of `base` on an instruction data set; returns its manifest.

    `options` are further words for the training program (`--steps 30`, `--rank 8` …).
    """
    _positive(checkpoint_every=checkpoint_every)
    _folder, base_manifest = read_model(base)
    manifest = DatasetManifest.read(data / "dataset-manifest.json" if data.is_dir() else data)
    inputs = {"base": base_manifest.digest(), "data": manifest.digest(), "options": " ".join(options)}
    if done := made_already(out, "sft", inputs, name):
        return done
    paths = Paths(shared)
    command = (
        *("python", "-m", "l3_ylink.ftkit.sft.lora"),
        *("--base", paths(base), "--data", paths(data), "--out", paths(out)),
        *("--checkpoint-every", str(checkpoint_every), *options),
    )
    request = JobRequest(
        name=name,
        command=command,
        environment={"OGAI_PREIMPORT": "torch,torch._dynamo,transformers,peft", **PATIENT},
        checkpoint=CheckpointRequest(paths(out / "checkpoints"), checkpoint_every),
        inputs=(base_manifest.reference(), manifest.reference()),
        data=(manifest.digest(),),
    )
    run = runs.open_run(out, "sft", inputs)
    run, outcome = carry_out(run, request, runner, on_step)
    result = _result(out)
    model = write_manifest(
        out / "model",
        name=name,
        type="adapter",
        architecture=f"LoRA of {base_manifest.architecture}",
        parameters=int(result["parameters"]),
        dtype="float32",
        licence=licence_of(manifest, base_manifest.licence),
        inputs=_inputs(manifest.reference(), base_manifest.reference(), outcome),
        base=base_manifest.reference(),
        training=training(out, result, manifest, None, outcome),
        languages=sorted(manifest.languages),
    )
    run.ended(runs.COMPLETED, metrics=model.training.metrics if model.training else {}).write()
    return model


def made_already(out: Path, kind: str, inputs: dict[str, str], name: str) -> ModelManifest | None:
    """The model that a run of the same inputs completed in `out`, while each of its files is sound."""
    try:
        run = runs.read_run(out)
        model = read_model(out / "model")[1]
    except (BadInput, NotFound):
        return None
    same = (run.kind, run.inputs, run.state, model.name) == (kind, inputs, runs.COMPLETED, name)
    return model if same else None


def carry_out(
    run: runs.Run, request: JobRequest, runner: Callable[[int], JobRunner], on_step: OnStep | None
) -> tuple[runs.Run, JobOutcome]:
    """Runs the job to its end, telling of every step; a run that fails is noted before it is raised.

    A job that an interrupted run left on the platform is waited for.
    """
    steps = StepReader(Path(run.folder), only_new=True)
    try:
        place = runner(run.attempt)
        handle = place.find(run.job) if run.job else None
        if handle is None:
            handle = place.run(replace(request, key=f"{run.id}-{run.attempt}"))
        run = replace(run, job=handle.id).write()
    except BaseException as problem:
        _note(run.ended(runs.FAILED, why=str(problem)))
        raise
    outcome = _wait(run, handle, steps, on_step)
    if not outcome.completed:
        _note(run.ended(runs.CANCELLED if outcome.state == "cancelled" else runs.FAILED, why=outcome.why))
        kind: type[Problem] = Failed
        then = "the same command goes on from the newest checkpoint"
        if outcome.exit_code == BadInput.exit_code:
            kind, then = BadInput, "trying the same again cannot help"
        raise kind(
            f"{request.name} {outcome.state}: {outcome.why or 'no reason given'}",
            do=f"look into the logs of {handle.id}; {then}",
        )
    return run, outcome


def _wait(run: runs.Run, handle: JobHandle, steps: StepReader, on_step: OnStep | None) -> JobOutcome:
    """Waits for the end.  Whoever gives up waiting ends the job, unless the platform is out of reach."""
    try:
        outcome = None
        while outcome is None:
            outcome = handle.wait(POLL_S)
            for row in steps.rows():
                if on_step is not None:
                    on_step(row)
    except Unavailable:
        raise  # the job may well go on: the run is interrupted, and the same call finds it again
    except BaseException as problem:
        handle.cancel()
        _note(run.ended(runs.CANCELLED, why=str(problem) or type(problem).__name__))
        raise
    return outcome


def _note(run: runs.Run) -> None:
    """Saves how a run ended; where even that cannot be written, it will be found interrupted."""
    with contextlib.suppress(Failed):
        run.write()


def training(
    out: Path,
    result: dict[str, Any],
    data: DatasetManifest,
    plan: ParallelPlan | None,
    outcome: JobOutcome,
) -> Training:
    """How the weights came about: digests, and the figures of the run."""
    curve = loss_curve(out)
    metrics = {name: float(value) for name, value in result["metrics"].items()}
    if curve:
        metrics |= {"loss_first": curve[min(curve)], "loss_last": curve[max(curve)]}
    return Training(
        dataset=data.digest(),
        plan=plan.digest() if plan else None,
        job=outcome.record_digest,
        steps=int(result["steps"]),
        metrics=metrics,
    )


def licence_of(data: DatasetManifest, base: str | None = None) -> str:
    """Licences of what the weights were made from, as an SPDX-like AND of all."""
    names = {source.licence for source in data.sources} | ({base} if base else set())
    return " AND ".join(sorted(names)) or "unknown"


def _inputs(first: Reference, second: Reference, outcome: JobOutcome) -> list[Reference]:
    record = outcome.record_digest
    return [first, second, *([Reference(schema_=JOB_RECORD, digest=record)] if record else [])]


def _result(out: Path) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads((out / RESULT).read_bytes())
    except FileNotFoundError as error:
        raise Failed(
            f"the job ended well but left no {RESULT} in {out}",
            do="check that the nodes write to the same shared folder",
        ) from error
    return value


def _positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise BadInput(f"is {value}, must be at least 1", field=name)
