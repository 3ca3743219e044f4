"""Presets against the words of the launchers that they stand for."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec
from l2_aistation.launchers import LAUNCHERS, Launch, Place, check, resolve
from l2_aistation.launchers.torchrun import elastic_environment


def spec_of(name: str, *, count: int = 4, one_per_node: bool = False, **preset: Any) -> JobSpec:
    group = {"count": count, "one_per_node": one_per_node, "preset": {"name": name, **preset}}
    envelope = {"producer": {"name": "test", "version": "1"}, "name": "job", "tasks": [group]}
    return JobSpec.parse(envelope)


def place(rank: int = 1, **more: Any) -> Place:
    values = {
        "world_size": 4,
        "local_rank": 1,
        "local_world_size": 2,
        "node_rank": 0,
        "nodes": 2,
        "master": "10.0.0.1",
        "port": 29500,
        "job": "job-1",
        "attempt": 2,
    }
    return Place(rank=rank, **{**values, **more})


def launch(spec: JobSpec, **more: Any) -> Launch:
    check(spec)
    return resolve(spec.tasks[0], place(**more))


SCRIPTED: dict[str, dict[str, Any]] = {
    name: {"script": "train.py", "one_per_node": name == "mpi"} for name in LAUNCHERS if name != "notebook"
}


@pytest.mark.parametrize("name", LAUNCHERS)
def test_an_unknown_option_is_named_with_those_that_exist(name: str) -> None:
    more = {"count": 1} if name == "notebook" else SCRIPTED[name]
    with pytest.raises(BadInput) as caught:
        check(spec_of(name, options={"learning_rat": 0.1}, **more))
    assert caught.value.field == "tasks.0.preset.options.learning_rat"
    assert min(LAUNCHERS[name].options) in caught.value.do


@pytest.mark.parametrize(
    ("name", "more", "field", "words"),
    [
        ("torchrunn", {"script": "a.py"}, "name", "there is no preset 'torchrunn'"),
        ("torchrun", {}, "script", "needs a script"),
        ("torchrun", {"script": "/etc/a.py"}, "script", "no path inside the shared folder"),
        ("torchrun", {"script": "a/../../b.py"}, "script", "no path inside the shared folder"),
        ("torchrun", {"script": "-c"}, "script", "no path inside the shared folder"),
        ("torchrun", {"script": "a.py", "options": {"epochs": 0}}, "options.epochs", "a whole number of 1"),
        ("torchrun", {"script": "a.py", "options": {"epochs": True}}, "options.epochs", "a whole number"),
        ("torchrun", {"script": "a.py", "options": {"epochs": 1.5}}, "options.epochs", "a whole number"),
        (
            "torchrun",
            {"script": "a.py", "options": {"processes_per_node": 2}},
            "options.processes_per_node",
            "alone on its node",
        ),
        (
            "deepspeed",
            {"script": "a.py", "options": {"config": "ds.json", "zero_stage": 2}},
            "options.config",
            "config and zero_stage",
        ),
        (
            "deepspeed",
            {"script": "a.py", "options": {"zero_stage": 4}},
            "options.zero_stage",
            "no ZeRO stage 4",
        ),
        ("megatron", {"script": "a.py", "options": {"tensor_parallel": 3}}, "options", "groups of 3"),
        (
            "megatron",
            {"script": "a.py", "options": {"precision": "fp8"}},
            "options.precision",
            "fp32, fp16, bf16",
        ),
        ("mpi", {"script": "a.py"}, "name", "one daemon a node"),
        ("notebook", {}, "", "a session is one task"),
        ("notebook", {"count": 1, "script": "a.py"}, "script", "takes no script"),
        ("notebook", {"count": 1, "options": {"kind": "ssh"}}, "options.public_key", "who may come in"),
        (
            "notebook",
            {"count": 1, "options": {"folder": "../x"}},
            "options.folder",
            "leaves the shared folder",
        ),
    ],
)
def test_what_no_launch_could_follow_is_one_clear_error(
    name: str, more: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(BadInput) as caught:
        check(spec_of(name, **more))
    assert caught.value.field == f"tasks.0.preset.{field}".rstrip(".")
    assert words in f"{caught.value} {caught.value.do}"


def test_torchrun_gives_ranks_what_torchrun_gives_its_workers(tmp_path: Path) -> None:
    """Every variable of torchrun's own that a real one sets, but for the store of its agent."""
    pytest.importorskip("torch")
    script = tmp_path / "names.py"
    script.write_text("import os, json; print(json.dumps(dict(os.environ)))")
    base = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "--standalone", str(script)]
    done = subprocess.run(words, env=base, capture_output=True, text=True, timeout=120, check=True)
    theirs = {name for name in json.loads(done.stdout) if name not in base and not name.startswith("LC_")}
    ours = set(elastic_environment(place())) | {
        *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
    }
    unneeded = {
        "TORCHELASTIC_ERROR_FILE",
        "TORCHELASTIC_SIGNALS_TO_HANDLE",
        "PYTHON_EXEC",
        "CUDA_MODULE_LOADING",
    }
    assert {name for name in theirs - ours if not name.startswith("TORCHINDUCTOR")} <= unneeded
    assert "TORCHELASTIC_RUN_ID" in theirs


def test_torchrun_a_task_is_a_rank_or_a_node() -> None:
    options = {"learning_rate": 3e-4, "epochs": 2, "seed": 7}
    rank = launch(spec_of("torchrun", script="a.py", arguments=["--x"], options=options))
    assert rank.command == ("python", "-u", "a.py", "--lr", "0.0003", "--epochs", "2", "--seed", "7", "--x")
    assert rank.environment["ROLE_RANK"] == "1"
    assert rank.environment["TORCHELASTIC_RESTART_COUNT"] == "1"
    node = launch(spec_of("torchrun", script="a.py", one_per_node=True, options={"processes_per_node": 8}))
    assert node.command == (
        *("python", "-u", "-m", "torch.distributed.run", "--nnodes=4", "--node-rank=1", "--nproc-per-node=8"),
        *("--master-addr=10.0.0.1", "--master-port=29500", "--max-restarts=0", "a.py"),
    )


@pytest.mark.parametrize(("text", "good"), [("5e-5", True), ("1.", True), ("nan", False), ("5e-5x", False)])
def test_a_number_as_yaml_gives_it(text: str, good: bool) -> None:
    """YAML 1.1 reads 5e-5 as a text."""
    spec = spec_of("torchrun", script="a.py", options={"learning_rate": text})
    if good:
        assert launch(spec).command[-1] == text
    else:
        with pytest.raises(BadInput, match="learning_rate"):
            check(spec)


def test_deepspeed_reads_its_configuration_from_the_command_line() -> None:
    options = {
        "zero_stage": 2,
        "micro_batch_size": 4,
        "learning_rate": 1e-4,
        "precision": "bf16",
        "offload": True,
    }
    words = launch(spec_of("deepspeed", script="a.py", options=options)).command
    assert words[2:4] == ("a.py", "--local_rank=1")
    config = words[words.index("--deepspeed_config") + 1]
    assert json.loads(base64.urlsafe_b64decode(config)) == {
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    }
    given = launch(spec_of("deepspeed", script="a.py", options={"config": "ds.json"})).command
    assert given[-3:] == ("--deepspeed", "--deepspeed_config", "ds.json")


def test_megatron_saves_and_loads_where_the_job_checkpoints() -> None:
    options = {
        "tensor_parallel": 2,
        "pipeline_parallel": 2,
        "steps": 100,
        "precision": "bf16",
        "sequence_parallel": True,
    }
    spec = spec_of("megatron", script="pretrain_gpt.py", options=options)
    words = launch(spec, checkpoint="runs/a", accelerators=1).command
    assert words == (
        *("python", "-u", "pretrain_gpt.py", "--tensor-model-parallel-size", "2"),
        *("--pipeline-model-parallel-size", "2", "--sequence-parallel", "--train-iters", "100", "--bf16"),
        *("--save", "runs/a", "--load", "runs/a", "--distributed-backend", "nccl"),
    )
    assert launch(spec).command[-1] == "gloo"


def test_hf_speaks_the_words_of_training_arguments() -> None:
    """Parsed by the Trainer's own parser, they mean what was asked for."""
    transformers = pytest.importorskip("transformers")
    options = {
        "learning_rate": 5e-5,
        "steps": 10,
        "micro_batch_size": 2,
        "gradient_accumulation": 4,
        "seed": 3,
    }
    more = {"save_every": 5, "keep": 2, "precision": "fp32", "epochs": 1.0}
    words = launch(spec_of("hf", script="a.py", options={**options, **more}), checkpoint="runs/b").command
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    known = parser.parse_args([*words[3:], "--use_cpu", "True"])
    assert (known.output_dir, known.learning_rate, known.max_steps) == ("runs/b", 5e-5, 10)
    assert (known.per_device_train_batch_size, known.gradient_accumulation_steps) == (2, 4)
    assert (known.save_steps, known.save_total_limit, known.seed) == (5, 2, 3)
