"""What presets have in common: options with kinds, a script, its arguments."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import IdlePolicy, JobSpec, Preset

_NUMBER = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
PRECISIONS = ("fp32", "fp16", "bf16")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task runs within its gang.  `nodes` counts the gang's nodes, `node_rank` numbers them."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    nodes: int
    master: str
    port: int
    job: str
    attempt: int
    accelerators: int = 0
    checkpoint: str | None = None
    idle: IdlePolicy | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """What a task runs, and what its launcher adds to its environment."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Option:
    """A hyper-parameter: `kind` is int, float, bool, str or the words to choose from.

    `flag` is the launcher's word for it; without one the launcher itself makes something of it.
    """

    kind: type[int] | type[float] | type[bool] | type[str] | tuple[str, ...]
    flag: str | None = None
    least: float | None = None

    def words(self) -> str:
        """What it may be."""
        if isinstance(self.kind, tuple):
            return f"one of {', '.join(self.kind)}"
        name = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[self.kind]
        return name if self.least is None else f"{name} of {self.least:g} or more"

    def takes(self, value: object) -> bool:
        """Whether a value is of the kind."""
        if isinstance(self.kind, tuple):
            return value in self.kind
        if self.kind is bool or isinstance(value, bool):
            return self.kind is bool and isinstance(value, bool)
        if self.kind is str:
            return isinstance(value, str) and bool(value)
        if self.kind is float and isinstance(value, str) and _NUMBER.match(value):
            value = float(value)  # 5e-5 is a text to YAML 1.1, which wants 5.0e-5
        allowed = int if self.kind is int else (int, float)
        if not isinstance(value, allowed):
            return False
        return self.least is None or value >= self.least


class Launcher(ABC):
    """A preset.  Sub-classes say their options and make the launch."""

    name: ClassVar[str]
    options: ClassVar[Mapping[str, Option]]
    needs_script: ClassVar[bool] = True

    def check(self, spec: JobSpec, number: int) -> None:
        """Refuses unknown and wrong options, and a script that is missing or leaves the shared folder."""
        preset, where = spec.tasks[number].preset, f"tasks.{number}.preset"
        assert preset is not None
        for name, value in preset.options.items():
            option = self.options.get(name)
            if option is None:
                raise BadInput(
                    f"{self.name} has no option {name!r}",
                    field=f"{where}.options.{name}",
                    do=f"use {', '.join(sorted(self.options))}; or give it in arguments",
                )
            if not option.takes(value):
                raise BadInput(
                    f"{value!r} is not {option.words()}",
                    field=f"{where}.options.{name}",
                    do=f"give {option.words()}",
                )
        self._check_script(preset, where)

    def _check_script(self, preset: Preset, where: str) -> None:
        script = preset.script
        if script is None and self.needs_script:
            raise BadInput(
                f"{self.name} needs a script",
                field=f"{where}.script",
                do="give a path relative to the shared folder",
            )
        if script is not None and (not script or script.startswith(("/", "-")) or ".." in script.split("/")):
            raise BadInput(
                f"{script!r} is no path inside the shared folder",
                field=f"{where}.script",
                do="give a path relative to the shared folder, without '..'",
            )

    @abstractmethod
    def launch(self, preset: Preset, place: Place) -> Launch:
        """The command and environment of one task."""

    def flags(self, options: Mapping[str, Any], *, joined: bool = False) -> list[str]:
        """The options that have a flag, as `--flag value` (or `--flag=value`); a true one alone."""
        words: list[str] = []
        for name, option in self.options.items():
            if option.flag is None or name not in options:
                continue
            value = options[name]
            if option.kind is bool:
                words += [option.flag] if value else []
            else:
                text = number_text(value)
                words += [f"{option.flag}={text}"] if joined else [option.flag, text]
        return words


def number_text(value: object) -> str:
    """A value as command lines have it: 3e-4 stays short, 2.0 stays a float."""
    return repr(value) if isinstance(value, float) else str(value)


def python(script: Sequence[str]) -> tuple[str, ...]:
    """A script under the node's interpreter; its output is not held back."""
    return ("python", "-u", *script)
