"""The step that turns kept texts into tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from .base import Step


class Tokenise(Step):
    """A byte-level BPE trained on the kept text, or a given `tokenizer.json`; output in Megatron's format."""

    step: Literal["tokenise"] = "tokenise"
    vocabulary: int | None = Field(None, ge=300, le=1_000_000, description="size of the vocabulary to train")
    tokenizer: Path | None = Field(None, description="a tokenizer.json, relative to the input folder")
    end: str = Field("<|endoftext|>", min_length=1, description="token that closes each document")
    sample_bytes: int = Field(
        50_000_000, ge=1_000, description="text at most used for training the vocabulary"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.vocabulary is not None and self.tokenizer is not None:
            raise ValueError("set `vocabulary` or `tokenizer`, not both")
        if self.vocabulary is None and self.tokenizer is None:
            self.vocabulary = 32_000
        return self
