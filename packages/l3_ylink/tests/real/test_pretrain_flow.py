"""Pretraining for real: DeepSpeed ZeRO-1 ranks over gloo, killed, damaged, resumed, exported."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from l3_ylink._kit.documents import Producer, digest_of_file
from l3_ylink._kit.problems import BadInput, Conflict, Failed
from l3_ylink.backends.local import LocalRunner
from l3_ylink.documents import DatasetManifest, ModelManifest, ModelShape, ParallelPlan, Shard, Source
from l3_ylink.models.manifest import read_model
from l3_ylink.trainkit import runs
from l3_ylink.trainkit.planning import make_plan
from l3_ylink.trainkit.program import loss_curve, read_steps
from l3_ylink.trainkit.service import train_pretrain

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
pytest.importorskip("deepspeed", reason="needs deepspeed: pip install 'l3-ylink[deepspeed]'")

STEPS, EVERY, RANKS = 12, 4, 2
SHAPE = ModelShape(
    layers=2, hidden=32, heads=4, kv_heads=2, ffn_hidden=64, vocabulary=128, sequence=16, tied_embeddings=True
)
AGAIN = """
import sys; from pathlib import Path
from l3_ylink.backends.local import LocalRunner
from l3_ylink.trainkit.service import train_pretrain
plan, data, out = map(Path, sys.argv[1:])
train_pretrain(plan, data, out, lambda n: LocalRunner(out / 'logs', attempt=n), checkpoint_every=4)
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A plan for two ranks, and tokens in which each follows from the one before."""
    folder = tmp_path_factory.mktemp("inputs")
    tokens = (np.cumsum(np.random.default_rng(0).integers(1, 3, 4000)) % SHAPE.vocabulary).astype(np.uint16)
    (folder / "text.bin").write_bytes(tokens.tobytes())
    head = struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", 1, 8, 1, 2)
    lengths = np.array([len(tokens)], np.int32).tobytes() + np.array([0, 0, 1], np.int64).tobytes()
    (folder / "text.idx").write_bytes(head + lengths)
    shards = [
        Shard(uri=name, sha256=digest_of_file(folder / name), bytes=(folder / name).stat().st_size, rows=rows)
        for name, rows in (("text.bin", 1), ("text.idx", 0))
    ]
    DatasetManifest(
        producer=Producer(name="test", version="1"),
        name="counting",
        kind="tokens",
        languages={"en": 1},
        shards=shards,
        rows=1,
        tokens=len(tokens),
        recipe_digest="sha256:" + "0" * 64,
        sources=[Source(name="made here", licence="CC0-1.0", documents=1)],
    ).write(folder / "dataset-manifest.json")
    plan = make_plan(SHAPE, RANKS, steps=STEPS, global_batch=8, micro_batch=2, learning_rate=0.02)
    plan.write(folder / "plan.json")
    return folder / "plan.json", folder


def train(inputs: tuple[Path, Path], out: Path) -> ModelManifest:
    plan, data = inputs
    return train_pretrain(
        plan, data, out, lambda n: LocalRunner(out / "logs", attempt=n), checkpoint_every=EVERY
    )


@pytest.fixture(scope="module")
def undisturbed(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    train(inputs, out)
    return out


def killed_run(inputs: tuple[Path, Path], out: Path, step: int) -> None:
    """Starts the run in a process of its own and kills that with -9 once `step` is done."""
    process = subprocess.Popen([sys.executable, "-c", AGAIN, *map(str, inputs), str(out)])
    until = time.monotonic() + 300
    while not any(row["step"] >= step for row in read_steps(out)):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_the_model_learns_and_its_manifest_names_where_it_came_from(
    inputs: tuple[Path, Path], undisturbed: Path
) -> None:
    curve = loss_curve(undisturbed)
    assert list(curve) == list(range(1, STEPS + 1))
    assert curve[1] == pytest.approx(np.log(SHAPE.vocabulary), rel=0.05)  # an untrained model guesses evenly
    assert curve[STEPS] < 0.8 * curve[1]
    _folder, model = read_model(undisturbed / "model")
    assert model.training is not None
    assert model.training.plan == ParallelPlan.read(inputs[0]).digest()
    assert model.training.dataset == DatasetManifest.read(inputs[1] / "dataset-manifest.json").digest()
    assert [reference.digest for reference in model.inputs] == [model.training.dataset, model.training.plan]
    assert (model.licence, model.training.steps) == ("CC0-1.0", STEPS)
    assert 0 < model.training.metrics["mfu"] <= model.training.metrics["hfu"]
    assert runs.read_run(undisturbed).state == "completed"


def test_kill_9_in_the_middle_changes_neither_loss_nor_weights(
    inputs: tuple[Path, Path], undisturbed: Path, tmp_path: Path
) -> None:
    killed_run(inputs, tmp_path / "run", step=EVERY + 1)
    assert runs.read_run(tmp_path / "run").seen().state == "interrupted"
    train(inputs, tmp_path / "run")
    attempts = {row["step"]: row["attempt"] for row in read_steps(tmp_path / "run")}
    assert attempts[1] == 1
    assert attempts[STEPS] == 2
    assert loss_curve(tmp_path / "run") == loss_curve(undisturbed)
    mine, theirs = (run / "model" / "model.safetensors" for run in (tmp_path / "run", undisturbed))
    assert mine.read_bytes() == theirs.read_bytes()


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(
    inputs: tuple[Path, Path], undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    killed_run(inputs, out, step=2 * EVERY + 1)
    newest = out / "checkpoints" / f"step-{2 * EVERY:08d}" / "engine"
    part = next(newest.glob("*rank_1*"))
    part.write_bytes(part.read_bytes()[:-1])
    train(inputs, out)
    log = (out / "logs" / "attempt-2.rank-0.log").read_text("utf-8")
    assert f"step-{2 * EVERY:08d} is damaged" in log
    assert f"resumed after step {EVERY}" in log
    assert loss_curve(out) == loss_curve(undisturbed)


@pytest.mark.soak
@pytest.mark.skipif(os.environ.get("OGAI_SOAK") != "1", reason="full counts: OGAI_SOAK=1")
@pytest.mark.parametrize(("stage", "ranks", "micro_batch"), [(0, 2, 2), (2, 2, 4), (1, 1, 4), (1, 4, 2)])
def test_zero_stage_ranks_and_accumulation_do_not_change_the_loss(
    inputs: tuple[Path, Path], undisturbed: Path, tmp_path: Path, stage: int, ranks: int, micro_batch: int
) -> None:
    plan = make_plan(
        SHAPE,
        ranks,
        steps=STEPS,
        global_batch=8,
        micro_batch=micro_batch,
        zero_stage=stage,
        learning_rate=0.02,
    )
    plan.write(tmp_path / "plan.json")
    train((tmp_path / "plan.json", inputs[1]), tmp_path / "run")
    expected = loss_curve(undisturbed)
    assert loss_curve(tmp_path / "run") == pytest.approx(expected, abs=1e-4)


def test_transformers_computes_the_same_logits(undisturbed: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    transformers = pytest.importorskip(
        "transformers", reason="needs transformers: pip install 'l3-ylink[sft]'"
    )
    from l3_ylink.trainkit.flows.llama import Llama
    from safetensors.torch import load_file

    theirs = transformers.LlamaForCausalLM.from_pretrained(undisturbed / "model", attn_implementation="eager")
    ours = Llama(SHAPE)
    ours.load_state_dict(load_file(undisturbed / "model" / "model.safetensors"), strict=False)
    tokens = torch.arange(2 * SHAPE.sequence).reshape(2, -1) % SHAPE.vocabulary
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-5)


def test_a_finished_run_started_again_is_done_unless_its_model_is_damaged(
    inputs: tuple[Path, Path], undisturbed: Path
) -> None:
    model = read_model(undisturbed / "model")[1]
    attempt = runs.read_run(undisturbed).attempt
    assert train(inputs, undisturbed).digest() == model.digest()
    assert runs.read_run(undisturbed).attempt == attempt

    weights = undisturbed / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    steps = len(list(read_steps(undisturbed)))
    assert train(inputs, undisturbed).files == model.files
    assert len(list(read_steps(undisturbed))) == steps, "from the last checkpoint, no step is done again"
    assert digest_of_file(weights) in {entry.sha256 for entry in model.files}


def test_another_tokenizer_stops_before_anything_starts(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(inputs[1], data)
    manifest = DatasetManifest.read(data / "dataset-manifest.json")
    digest = "sha256:" + "1" * 64
    manifest.model_copy(update={"tokenizer_digest": digest}).write(data / "dataset-manifest.json")
    (data / "tokenizer.json").write_text("{}")
    with pytest.raises(BadInput, match="not the tokenizer"):
        train((inputs[0], data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_seed_in_the_same_folder_is_refused(inputs: tuple[Path, Path], undisturbed: Path) -> None:
    plan, data = inputs
    with pytest.raises(Conflict, match="another seed"):
        train_pretrain(plan, data, undisturbed, lambda n: LocalRunner(undisturbed / "logs"), seed=1)


def test_a_program_started_with_another_world_size_ends_with_2_and_says_why(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "l3_ylink.trainkit.flows.pretrain_deepspeed"]
    options = ["--plan", str(inputs[0]), "--data", str(inputs[1]), "--out", str(tmp_path)]
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "3"}
    ended = subprocess.run([*command, *options], env=environment, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "the plan is for 2 ranks, this job has 3" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_damaged_shard_stops_before_anything_starts(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    for name in ("dataset-manifest.json", "text.idx"):
        (tmp_path / name).write_bytes((inputs[1] / name).read_bytes())
    (tmp_path / "text.bin").write_bytes((inputs[1] / "text.bin").read_bytes()[::-1])
    with pytest.raises(BadInput, match="another SHA-256"):
        train((inputs[0], tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a log but not for a checkpoint."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "none", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs root: mount -t tmpfs")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_said_and_the_run_goes_on_once_there_is_room(
    inputs: tuple[Path, Path], undisturbed: Path, small_disk: Path
) -> None:
    with pytest.raises(Failed, match="no space left on device"):
        train(inputs, small_disk / "run")
    assert runs.read_run(small_disk / "run").state == "failed"
    assert not list((small_disk / "run" / "checkpoints").glob("step-*"))
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    train(inputs, small_disk / "run")
    assert loss_curve(small_disk / "run") == loss_curve(undisturbed)
    assert json.loads((small_disk / "run" / "result.json").read_text("utf-8"))["steps"] == STEPS
