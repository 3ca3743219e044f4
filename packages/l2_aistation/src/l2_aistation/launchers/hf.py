"""Hugging Face: each task is a rank of a script around `transformers.Trainer`, options in its words.

Source of the words: transformers.TrainingArguments.  A Trainer finds rank and peers in torchrun's
environment, and its newest checkpoint in the output folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from l2_aistation.documents import Preset

from .launcher import PRECISIONS, Launch, Launcher, Option, Place, python
from .torchrun import elastic_environment


class HuggingFace(Launcher):
    """Scripts that parse TrainingArguments."""

    name = "hf"
    options: ClassVar[Mapping[str, Option]] = {
        "model": Option(str, "--model_name_or_path"),
        "dataset": Option(str, "--dataset_name"),
        "learning_rate": Option(float, "--learning_rate", least=0),
        "epochs": Option(float, "--num_train_epochs", least=0),
        "steps": Option(int, "--max_steps", least=1),
        "micro_batch_size": Option(int, "--per_device_train_batch_size", least=1),
        "gradient_accumulation": Option(int, "--gradient_accumulation_steps", least=1),
        "save_every": Option(int, "--save_steps", least=1),
        "keep": Option(int, "--save_total_limit", least=1),
        "seed": Option(int, "--seed"),
        "deepspeed": Option(str, "--deepspeed"),
        "precision": Option(PRECISIONS),
    }

    def launch(self, preset: Preset, place: Place) -> Launch:
        """A rank; without the job's checkpoint folder the output lies beside the job's name."""
        assert preset.script is not None
        words = [preset.script, "--output_dir", place.checkpoint or f"runs/{place.job}"]
        words += self.flags(preset.options)
        precision = preset.options.get("precision", "fp32")
        if precision != "fp32":
            words += [f"--{precision}", "True"]
        return Launch(python([*words, *preset.arguments]), elastic_environment(place))
