"""Recipes of generation: which model, which way, what is checked, and what it may cost.  YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from l3_ylink._kit.documents import describe, digest_of, first_field
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.recipe import read_yaml

from .base import Sampling
from .caller import Budget
from .client import ModelSpec
from .finish import Judge, Verify
from .prompts import Language
from .questions import DocumentQa
from .tasks import Evolve, Persona, SelfInstruct

AnyMethod = Annotated[SelfInstruct | Evolve | Persona | DocumentQa, Field(discriminator="method")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
LATER = {"budget", "rows", "parallel"}
"""What may change when a run goes on: no answer depends on it."""


class GenerateRecipe(BaseModel):
    """A set of instructions to make."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    licence: str = Field(min_length=1, description="of what is made; the model's own terms may bind it")
    language: Language = "en"
    seed: int = 0
    rows: int = Field(100, ge=1, description="rows to keep; it ends when there are so many")
    model: ModelSpec
    sampling: Sampling = Field(default_factory=Sampling)
    method: AnyMethod
    verify: Verify | None = None
    judge: Judge | None = None
    budget: Budget = Field(default_factory=Budget)
    parallel: int = Field(
        4, ge=1, le=64, description="questions at once; the rows are the same for any number"
    )

    def digest(self) -> str:
        """`sha256:…` of everything that the rows depend on."""
        return digest_of(self.model_dump(mode="json", exclude=LATER))


def load_generate_recipe(path: Path) -> GenerateRecipe:
    """A recipe from a YAML file; a `BadInput` names the line or the field at fault."""
    return parse_generate_recipe(read_yaml(path), where=str(path))


def parse_generate_recipe(value: Any, *, where: str = "recipe") -> GenerateRecipe:
    """A recipe from plain values; a `BadInput` names the field at fault."""
    if not isinstance(value, dict):
        raise BadInput("is not a mapping with name, model and method", field=where)
    try:
        return GenerateRecipe.model_validate(value)
    except ValidationError as error:
        raise BadInput(f"{where}: {describe(error)}", field=first_field(error)) from error
