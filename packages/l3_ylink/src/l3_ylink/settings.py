"""Settings of YLink."""

from __future__ import annotations

import os
from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ._kit.config import LayerSettings


class Settings(LayerSettings):
    """What a user of this layer can set: flags, `OGAI_L3_…`, `[l3]` of `ogai.toml`."""

    TABLE: ClassVar[str] = "l3"
    model_config = SettingsConfigDict(env_prefix="OGAI_L3_", extra="forbid", validate_default=True)

    host: str = Field("127.0.0.1", description="address the server listens on")
    port: int = Field(8473, ge=0, le=65535, description="port the server listens on; 0 takes a free one")
    workers: int = Field(
        default_factory=lambda: min(os.cpu_count() or 1, 8),
        ge=1,
        le=1024,
        description="processes of a data run; the result is the same for any number",
    )
    block_bytes: int = Field(
        4_000_000,
        ge=1_000,
        description="input bytes of a block: what is computed, committed and repeated as one piece",
    )
    tenant: str = Field(
        "system", description="tenant that data sets, plans and runs of the command line belong to"
    )
