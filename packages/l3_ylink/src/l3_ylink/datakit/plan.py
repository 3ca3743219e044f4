"""The plan of a run, as it lies in its folder: recipe, input and blocks.  Workers and pages read it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from l3_ylink._kit.documents import digest_of
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, NotFound

from .documents.store import AGAIN, BlockStore
from .gather.listing import Block, Listing, Piece
from .recipe import Recipe, parse_recipe

if TYPE_CHECKING:
    from .engines import Engine

FILE = "run.json"


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What is to be done, and where."""

    folder: Path
    recipe: Recipe
    input: Path
    blocks: list[Block]
    unlisted: int
    key: str
    engine: Engine | None = field(default=None, repr=False)
    """Where this run's tasks are done; None: processes of this machine.  Not a part of what is saved."""

    @classmethod
    def make(cls, folder: Path, recipe: Recipe, input_folder: Path, listing: Listing) -> RunPlan:
        """A new plan; loads what the steps need."""
        for step in recipe.steps:
            step.prepare(input_folder)
        return cls(
            folder, recipe, input_folder.resolve(), listing.blocks, listing.unlisted, recipe.signal_key()
        )

    @classmethod
    def load(cls, folder: Path) -> RunPlan:
        """The plan that a run left in its folder; `NotFound` where there is none."""
        try:
            value = json.loads((folder / FILE).read_bytes())
        except FileNotFoundError as error:
            raise NotFound(
                "no data run here", field=str(folder), do="give the --out folder of a run"
            ) from error
        except ValueError as error:
            raise BadInput("is damaged", field=str(folder / FILE), do=AGAIN) from error
        try:
            recipe = parse_recipe(value["recipe"], where=FILE)
            blocks = [
                Block(number, tuple(Piece(*piece) for piece in pieces))
                for number, pieces in enumerate(value["blocks"])
            ]
            return cls(folder, recipe, Path(value["input"]), blocks, value["unlisted"], value["key"])
        except (LookupError, TypeError, BadInput) as error:
            raise BadInput("is of another version", field=str(folder / FILE), do=AGAIN) from error

    def save(self) -> None:
        """Writes the plan into the folder."""
        value = {
            "schema": "ylink-data-run/1",
            "recipe": self.recipe.model_dump(mode="json"),
            "input": str(self.input),
            "unlisted": self.unlisted,
            "key": self.key,
            "blocks": [block.pieces for block in self.blocks],
        }
        atomic_write(self.folder / FILE, json.dumps(value, ensure_ascii=False))

    def prepare(self) -> None:
        """Loads what the steps need to measure."""
        for step in self.recipe.steps:
            step.prepare(self.input)

    @cached_property
    def store(self) -> BlockStore:
        """The blocks."""
        return BlockStore(self.folder / "signals")

    def block_key(self, block: Block) -> str:
        """What a block's columns depend on: settings and files."""
        return digest_of({"key": self.key, "pieces": [list(map(str, piece)) for piece in block.pieces]})[7:39]
