"""A trained model as a folder that `LlamaForCausalLM.from_pretrained` reads."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from l3_ylink._kit.files import atomic_write
from l3_ylink.documents import ParallelPlan

from .llama import hugging_face_config

END_OF_TEXT = ("<|endoftext|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<|im_end|>")


def write_model(model: Any, plan: ParallelPlan, folder: Path, tokenizer: Path | None) -> None:
    """Weights (float32 safetensors), `config.json` and the tokenizer; each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: weight.detach().float().contiguous() for name, weight in model.state_dict().items()}
    if plan.shape.tied_embeddings:
        del state["lm_head.weight"]  # the same storage as the embedding; safetensors keeps one
    neighbour = folder / ".model.safetensors.tmp"
    save_file(state, neighbour, metadata={"format": "pt"})
    os.replace(neighbour, folder / "model.safetensors")
    end, end_id = end_of_text(tokenizer) if tokenizer else (None, None)
    config = hugging_face_config(plan.shape, dtype="float32", eos_token_id=end_id)
    atomic_write(folder / "config.json", json.dumps(config, indent=1))
    if tokenizer is not None:
        shutil.copyfile(tokenizer, folder / "tokenizer.json")
        about = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": plan.shape.sequence,
            "eos_token": end,
        }
        atomic_write(folder / "tokenizer_config.json", json.dumps(about, indent=1))


def end_of_text(tokenizer: Path) -> tuple[str | None, int | None]:
    """The token that closes a document, by its usual names."""
    added = json.loads(tokenizer.read_bytes()).get("added_tokens", [])
    ids = {row["content"]: row["id"] for row in added}
    return next(((name, ids[name]) for name in END_OF_TEXT if name in ids), (None, None))
