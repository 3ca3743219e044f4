"""Stage 6: register, evaluate, promote, serve, and ask through the official client."""

from __future__ import annotations

from pathlib import Path

import openai
from l4_mmodel.api import Mmodel

from integration_tests.demo.stage import ROOT, TENANT, Demo

SUITE = ROOT / "integration_tests" / "demo" / "suite.yaml"
RULE = ">= baseline and p < 0.05"
QUESTION = (
    "Log: r12n3 reports Xid 79, GPU 5 has fallen off the bus\n"
    "Which action fits: restart, replace, reset, fix or watch?"
)


def evaluate(demo: Demo, mmodel: Mmodel, base: Path, adapter: Path) -> None:
    """Both models into the registry, and the adapter measured beside its base."""
    versions = [mmodel.register(folder / "model-manifest.json") for folder in (base, adapter)]
    reports = mmodel.evaluate(SUITE, versions)
    for report, name in zip(reports, ("eval-report-base", "eval-report-triage"), strict=True):
        report.write(demo.document(name))
        for metric in report.metrics:
            interval = f"[{metric.low:.3f}, {metric.high:.3f}]"
            demo.say(f"{report.model_name}: {metric.name} {metric.value:.3f} {interval}, n = {metric.n}")
    promotion = mmodel.promote(versions[1], RULE)
    demo.say(f"promotion by {RULE!r}: {'yes' if promotion.promoted else 'no'}")
    better = int(promotion.promoted)
    why = reports[better].reference()
    deployment = mmodel.deploy(versions[better], name="triage", reason=RULE, evaluation=why)
    demo.notes["served"] = f"{deployment.model_name} {deployment.model_version}, because {RULE}"


def serve_and_ask(demo: Demo, mmodel: Mmodel) -> None:
    """The deployment answers the official `openai` client, streaming, by a key of the tenant."""
    key = mmodel.keys.create("demo-client")
    with mmodel.serve(port=0, wait_for=["triage"]) as server:
        client = openai.OpenAI(base_url=server.url, api_key=key.secret)
        stream = client.chat.completions.create(
            model="triage", messages=[{"role": "user", "content": QUESTION}], stream=True, max_tokens=24
        )
        answer = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        mmodel.deployment("triage").write(demo.document("deployment"))
    demo.say(f"asked: {QUESTION}")
    demo.say(f"answered: {answer.strip()!r}")
    demo.notes |= {"question": QUESTION, "answer": answer.strip()}


def run(demo: Demo, base: Path, adapter: Path) -> None:
    """The whole stage."""
    mmodel = Mmodel(tenant=TENANT)
    demo.stack.callback(mmodel.close)
    evaluate(demo, mmodel, base, adapter)
    serve_and_ask(demo, mmodel)
