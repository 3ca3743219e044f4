"""DeepSpeed: each task is a rank; the configuration is a file or is made from the options.

A configuration made here travels on the command line in base64, which DeepSpeed reads where it expects
a file's name (deepspeed/runtime/config.py, 0.19).  A hostfile for scripts that want one is at
OGAI_HOSTFILE.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, ClassVar

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec, Preset

from .launcher import PRECISIONS, Launch, Launcher, Option, Place, python
from .torchrun import elastic_environment

MADE = (
    "zero_stage",
    "micro_batch_size",
    "gradient_accumulation",
    "learning_rate",
    "gradient_clipping",
    "precision",
    "offload",
)
"""Options that become DeepSpeed's configuration."""


def configuration(options: Mapping[str, Any]) -> dict[str, Any]:
    """DeepSpeed's configuration of our options, in its words (deepspeed.ai/docs/config-json)."""
    made: dict[str, Any] = {"train_micro_batch_size_per_gpu": options.get("micro_batch_size", 1)}
    if "gradient_accumulation" in options:
        made["gradient_accumulation_steps"] = options["gradient_accumulation"]
    if "gradient_clipping" in options:
        made["gradient_clipping"] = float(options["gradient_clipping"])
    if "learning_rate" in options:
        made["optimizer"] = {"type": "AdamW", "params": {"lr": float(options["learning_rate"])}}
    if options.get("precision", "fp32") != "fp32":
        made[str(options["precision"])] = {"enabled": True}
    if "zero_stage" in options:
        made["zero_optimization"] = {"stage": options["zero_stage"]}
        if options.get("offload"):
            made["zero_optimization"]["offload_optimizer"] = {"device": "cpu"}
    return made


class DeepSpeed(Launcher):
    """DeepSpeed's launcher."""

    name = "deepspeed"
    options: ClassVar[Mapping[str, Option]] = {
        "config": Option(str),
        "zero_stage": Option(int, least=0),
        "micro_batch_size": Option(int, least=1),
        "gradient_accumulation": Option(int, least=1),
        "learning_rate": Option(float, least=0),
        "gradient_clipping": Option(float, least=0),
        "precision": Option(PRECISIONS),
        "offload": Option(bool),
        "epochs": Option(int, "--epochs", least=1),
        "steps": Option(int, "--steps", least=1),
        "seed": Option(int, "--seed"),
    }

    def check(self, spec: JobSpec, number: int) -> None:
        """Also: one source of the configuration, and stages that exist."""
        super().check(spec, number)
        group, where = spec.tasks[number], f"tasks.{number}.preset"
        options = group.preset.options if group.preset else {}
        twice = sorted(set(options) & set(MADE))
        if "config" in options and twice:
            raise BadInput(
                f"config and {', '.join(twice)} would both be DeepSpeed's configuration",
                field=f"{where}.options.config",
                do="say everything in the file, or leave config out",
            )
        stage = options.get("zero_stage", 0)
        if isinstance(stage, int) and stage > 3:
            raise BadInput(
                f"there is no ZeRO stage {stage}", field=f"{where}.options.zero_stage", do="use 0 to 3"
            )
        if options.get("offload") and not stage:
            raise BadInput(
                "offload needs ZeRO", field=f"{where}.options.offload", do="set zero_stage to 1 to 3"
            )

    def launch(self, preset: Preset, place: Place) -> Launch:
        """The script with --local_rank first, as DeepSpeed's launcher starts it."""
        assert preset.script is not None
        words = [preset.script, f"--local_rank={place.local_rank}", *self.flags(preset.options)]
        config = preset.options.get("config")
        if config is None and set(preset.options) & set(MADE):
            text = json.dumps(configuration(preset.options), sort_keys=True)
            config = base64.urlsafe_b64encode(text.encode()).decode()
        if config is not None:
            words += ["--deepspeed", "--deepspeed_config", str(config)]
        return Launch(python([*words, *preset.arguments]), elastic_environment(place))
