"""`python -m integration_tests.demo`: from a bare server to a served model."""

from __future__ import annotations

import argparse
import importlib
import os
import random
import signal
from pathlib import Path

import httpx
import openai
from rich.console import Console

from integration_tests import report
from integration_tests.demo import bare_metal, cluster, serving, training
from integration_tests.demo.stage import ROOT, Demo

LAYERS = ("l0_infra_os", "l1_podsys", "l2_aistation", "l3_ylink", "l4_mmodel")
PROBLEMS = tuple(importlib.import_module(f"{layer}._kit.problems").Problem for layer in LAYERS)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="nox -s demo --", description=__doc__)
    parser.add_argument("--machines", choices=("nspawn", "qemu", "process"), help="process: without root")
    parser.add_argument("--work", type=Path, default=ROOT / "demo-work", help="folder of this run")
    parser.add_argument("--report", type=Path, default=ROOT / "demo-report.html", help="the page at the end")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("OGAI_SEED") or 0) or None)
    chosen = parser.parse_args()
    chosen.machines = chosen.machines or ("nspawn" if os.geteuid() == 0 else "process")
    chosen.seed = chosen.seed or random.SystemRandom().randrange(1, 2**31)
    return chosen


def flow(demo: Demo) -> None:
    """The stages in order."""
    bodies = demo.machines != "process"
    with demo.stage("Lab: five machines with a BMC each"):
        room = bare_metal.lab(demo)
    if demo.machines == "qemu":
        with demo.stage("L0: a machine with real firmware"):
            bare_metal.firmware_machine(demo)
    with demo.stage("L0: enroll, inspect, lease, provision"):
        infra = bare_metal.nodes(demo, room)
    with demo.stage("L1: plan, apply, verify"):
        client = cluster.platform(demo, room.controller if bodies else None)
        if bodies:
            cluster.configure(demo, client)
    with demo.stage("L3: gather, purify, tokenise"):
        training.data(demo)
    token = demo.token("engineer")
    with demo.stage("L2 + L3: pretraining that loses a node"):
        training.pretrain(demo, client, infra if bodies else None, token)
    with demo.stage("L2 + L3: fine-tuning SmolLM2-135M-Instruct"):
        base = training.base_model(demo)
        adapter = training.fine_tune(demo, client, token)
    with demo.stage("L4: register, evaluate, promote, serve"):
        serving.run(demo, base, adapter)


def main() -> None:
    """Runs the flow, writes the report, leaves nothing running."""
    chosen = options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False)
    console.print(f"seed {chosen.seed}, machines {chosen.machines}, work in {chosen.work}")
    demo = Demo(chosen.machines, chosen.work.resolve(), chosen.seed, console)
    try:
        with demo.stack, demo.guard:
            flow(demo)
    except (*PROBLEMS, openai.OpenAIError, httpx.HTTPError) as problem:
        console.print(f"[red]stopped:[/red] {problem}", markup=True)
        raise SystemExit(getattr(problem, "exit_code", 1)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    report.write(demo, chosen.report)
    console.print(f"done in {sum(seconds for _, seconds in demo.times):.0f} s; everything is stopped")
    print(chosen.report)


if __name__ == "__main__":
    main()
