"""Recipes: which sources, which steps in which order, with which settings.  YAML; unknown words refused."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from l3_ylink._kit.documents import describe, digest_of, first_field
from l3_ylink._kit.problems import BadInput

from .steps.base import Step
from .steps.c4 import C4
from .steps.classify import Classify, Perplexity
from .steps.clean import Clean, Convert
from .steps.contamination import Decontaminate
from .steps.duplicates import Exact, Near
from .steps.extract import Extract
from .steps.judge import Language, Quality
from .steps.lines import Boilerplate, Lines
from .steps.personal import Personal
from .steps.sensitive import Sensitive
from .steps.substrings import Substrings
from .steps.tokenise import Tokenise
from .steps.urls import UrlDuplicates, Urls

SIGNALS_VERSION = 9
"""Grows whenever the same settings would give other columns: then nothing stored is used again."""

AnyStep = Annotated[
    Extract
    | Clean
    | Convert
    | Language
    | Quality
    | C4
    | Perplexity
    | Classify
    | Personal
    | Sensitive
    | Urls
    | UrlDuplicates
    | Exact
    | Near
    | Boilerplate
    | Lines
    | Substrings
    | Decontaminate
    | Tokenise,
    Field(discriminator="step"),
]
STEPS: dict[str, type[Step]] = {
    "extract": Extract,
    "clean": Clean,
    "convert": Convert,
    "language": Language,
    "quality": Quality,
    "c4": C4,
    "perplexity": Perplexity,
    "classify": Classify,
    "personal": Personal,
    "sensitive": Sensitive,
    "urls": Urls,
    "url_duplicates": UrlDuplicates,
    "exact": Exact,
    "near": Near,
    "boilerplate": Boilerplate,
    "lines": Lines,
    "substrings": Substrings,
    "decontaminate": Decontaminate,
    "tokenise": Tokenise,
}
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


TextFormat = Literal["parquet", "jsonl", "webdataset", "arrow"]


def _parquet() -> list[TextFormat]:
    return ["parquet"]


class Source(BaseModel):
    """Where documents come from: files by pattern, their licence, and how their texts are found."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    licence: str = Field(min_length=1, description="SPDX expression, or what the source says")
    url: str | None = None
    at: str | None = Field(
        None,
        pattern=r"^[a-z][a-z0-9+.-]*://",
        description="place elsewhere, as s3://bucket/folder, by fsspec",
    )
    include: list[str] = Field(
        default_factory=lambda: ["**"], min_length=1, description="patterns below the input, or below `at`"
    )
    exclude: list[str] = Field(default_factory=list)
    split: str | None = Field(
        None, min_length=1, description="a line that divides a text file into documents"
    )
    text_field: str = Field("text", description="the field with the text in JSONL and Parquet")


class SampleSet(BaseModel):
    """A file of samples for fine-tuning, validated on its own; rows may be in any of the known forms."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    path: Path = Field(description="JSONL (plain, gz, zst), relative to the input folder")
    licence: str = Field(min_length=1)
    url: str | None = None
    longest: int = Field(32_000, ge=1, description="characters of one sample")
    repeated: Literal["join", "reject", "last"] = Field(
        "join", description="two turns of one role in a row: join them, reject the row, or keep the last"
    )
    form: str


class InstructionSet(SampleSet):
    """Conversations to imitate."""

    form: Literal["openai", "sharegpt", "alpaca"] = Field("openai", description="form that is written")


class PreferenceSet(SampleSet):
    """Answers that were compared (DPO) or judged (KTO)."""

    form: Literal["dpo", "openai-pairs", "kto"] = Field("dpo", description="form that is written")


class Recipe(BaseModel):
    """A data set's recipe: sources, steps in order, and samples for fine-tuning beside them."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    sources: list[Source] = Field(min_length=1)
    steps: list[AnyStep] = Field(min_length=1)
    instructions: list[InstructionSet] = Field(default_factory=list)
    preferences: list[PreferenceSet] = Field(default_factory=list)
    earlier: list[Path] = Field(
        default_factory=list,
        description="--out folders of earlier runs (relative to the input): what they kept is there already",
    )
    text_formats: list[TextFormat] = Field(default_factory=_parquet, min_length=1)
    stages: dict[Name, list[str]] = Field(
        default_factory=dict, description="stage of the funnel -> its steps, for the report"
    )

    @model_validator(mode="after")
    def _order(self) -> Self:
        names = [step.step for step in self.steps]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)}: comes more than once")
        if names[0] != "extract":
            raise ValueError("the first step must be extract")
        if "tokenise" in names[:-1]:
            raise ValueError("tokenise must be the last step")
        staged = [name for steps in self.stages.values() for name in steps]
        if self.stages and staged != names:
            raise ValueError("stages must name every step once, in the order of the steps")
        if len({source.name for source in self.sources}) < len(self.sources):
            raise ValueError("two sources have the same name")
        return self

    def digest(self) -> str:
        """`sha256:…` of the recipe with every setting spelt out."""
        return digest_of(self.model_dump(mode="json"))

    def signal_key(self) -> str:
        """What the stored columns depend on; the digest's first 32 digits.  Needs `prepare`d steps."""
        settings = [step.signal_settings() for step in self.steps if step.step != "tokenise"]
        sources = [source.model_dump(mode="json", exclude={"licence", "url"}) for source in self.sources]
        return digest_of({"version": SIGNALS_VERSION, "steps": settings, "sources": sources})[7:39]

    def find(self, kind: type[Step]) -> Any:
        """The step of a kind, or None."""
        return next((step for step in self.steps if isinstance(step, kind)), None)


def load_recipe(path: Path) -> Recipe:
    """A recipe from a YAML file; a `BadInput` names the line or the field at fault."""
    return parse_recipe(read_yaml(path), where=str(path))


def read_yaml(path: Path) -> Any:
    """The plain values of a recipe's file, of whatever kind; a `BadInput` names the line at fault."""
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BadInput("no such recipe", field=str(path), do="check the path") from error
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise BadInput(f"is not readable YAML: {' '.join(str(error).split())}", field=str(path)) from error


def parse_recipe(value: Any, *, where: str = "recipe") -> Recipe:
    """A recipe from plain values; a `BadInput` names the field at fault, an unknown step its likely name."""
    if not isinstance(value, dict):
        raise BadInput("is not a mapping with name, sources and steps", field=where)
    _check_steps(value.get("steps"), where)
    try:
        return Recipe.model_validate(value)
    except ValidationError as error:
        raise BadInput(f"{where}: {describe(error)}", field=first_field(error)) from error


def _check_steps(steps: Any, where: str) -> None:
    """pydantic's words for an unknown discriminator are for programmers: these are for people."""
    for number, entry in enumerate(steps if isinstance(steps, list) else ()):
        name = entry.get("step") if isinstance(entry, dict) else entry
        if not isinstance(entry, dict) or not isinstance(name, str):
            raise BadInput(
                f"{where}: {entry!r} is not a step", field=f"steps.{number}", do="write it as `- step: NAME`"
            )
        if name not in STEPS:
            near = difflib.get_close_matches(name, STEPS, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise BadInput(
                f"{where}: there is no step {name!r}",
                field=f"steps.{number}.step",
                do=f"{hint}steps: {', '.join(STEPS)}",
            )
