"""A model on this machine, loaded by transformers: one question at a time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from l3_ylink._kit.problems import BadInput, Unavailable

from .client import Ask, Refused, Said


class LocalModel:
    """A causal language model in a folder, with its own chat template.  Loaded when it is first asked."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "config.json").is_file():
            raise BadInput(
                "holds no model", field=str(folder), do="give a folder with config.json and weights"
            )
        self.folder = folder
        self.lock = threading.Lock()
        self.loaded: tuple[Any, Any] | None = None

    def _load(self) -> tuple[Any, Any]:
        if self.loaded is None:
            try:
                from transformers import AutoModelForCausalLM, AutoTokenizer
            except ImportError as error:
                raise Unavailable(
                    f"{error.name} is not installed", do="pip install 'l3-ylink[sft]'"
                ) from error
            tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
            model = AutoModelForCausalLM.from_pretrained(self.folder, local_files_only=True)
            self.loaded = tokenizer, model.eval()
        return self.loaded

    def ask(self, ask: Ask) -> Said:
        """Asks; the seed makes a sampled answer the same again."""
        with self.lock:
            tokenizer, model = self._load()
            return _generate(tokenizer, model, ask)

    def close(self) -> None:
        """Lets go of the weights."""
        self.loaded = None


def _generate(tokenizer: Any, model: Any, ask: Ask) -> Said:
    import torch

    text = tokenizer.apply_chat_template(ask.messages, tokenize=False, add_generation_prompt=True)
    given = tokenizer(text, return_tensors="pt", add_special_tokens=False)
    asked = int(given["input_ids"].shape[1])
    if asked + ask.max_tokens > model.config.max_position_embeddings:
        raise Refused(f"{asked} tokens and {ask.max_tokens} to come are more than the model holds")
    sampled = {"do_sample": True, "temperature": ask.temperature, "top_p": ask.top_p, "top_k": 0}
    torch.manual_seed(ask.seed)
    with torch.inference_mode():
        made = model.generate(
            **given,
            max_new_tokens=ask.max_tokens,
            pad_token_id=tokenizer.pad_token_id or tokenizer.eos_token_id,
            **(sampled if ask.temperature > 0 else {"do_sample": False}),
        )[0][asked:]
    finish = "length" if len(made) >= ask.max_tokens else "stop"
    return Said(tokenizer.decode(made, skip_special_tokens=True).strip(), asked, len(made), finish)
