"""Settings of podsys: flags > `OGAI_L1_…` > `[l1]` of `ogai.toml` > defaults."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ._kit.config import LayerSettings


def cache_folder() -> Path:
    """Where bundles are kept: `$OGAI_CACHE`, else `$XDG_CACHE_HOME/ogai`, else `~/.cache/ogai`."""
    named = os.environ.get("OGAI_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ogai"


class Settings(LayerSettings):
    """How podsys reaches hosts and how much it does at once."""

    TABLE: ClassVar[str] = "l1"
    model_config = SettingsConfigDict(env_prefix="OGAI_L1_")

    cache: Path = Field(default_factory=cache_folder, description="folder with offline bundles")
    ssh_parallel: int = Field(default=32, ge=1, le=512, description="SSH sessions at once")
    forks: int = Field(default=32, ge=1, le=512, description="hosts that ansible works on at once")
    connect_timeout_s: int = Field(default=8, ge=1, le=300)
    facts_timeout_s: float = Field(default=60, gt=0, le=600)
    persist_s: int = Field(default=20, ge=0, le=3600, description="how long an SSH connection is kept")

    @property
    def bundles(self) -> Path:
        """The folder of offline bundles."""
        return self.cache / "bundles"
