"""Settings of this layer: `OGAI_L4_…`, `[l4]` of `ogai.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ._kit.config import LayerSettings


class Settings(LayerSettings):
    """Where state lives, what runs models, and the bounds of the gateway."""

    TABLE: ClassVar[str] = "l4"

    model_config = SettingsConfigDict(env_prefix="OGAI_L4_", extra="forbid", validate_default=True)

    database_url: str = Field(default="", description="empty: SQLite in this layer's folder")
    tenant: str = Field(
        default="default",
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
        description="tenant of local calls",
    )
    host: str = Field(default="127.0.0.1", description="address that `mmodel serve` listens on")
    port: int = Field(default=8474, ge=0, le=65535, description="its port; 0 takes a free one")
    threads: int = Field(default=2, ge=1, description="threads of a transformers runtime")
    dtype: str = Field(
        default="auto",
        pattern="^(auto|float32|bfloat16)$",
        description="auto: bfloat16 where the processor multiplies it natively, else float32",
    )
    start_timeout_s: float = Field(default=120, gt=0, description="how long a runtime may take to be ready")
    drain_s: float = Field(default=20, ge=0, description="how long a stop waits for requests under way")
    body_limit_bytes: int = Field(default=16 << 20, ge=1024, description="largest request of the gateway")
    context_limit: int = Field(default=8192, ge=16, description="most tokens of prompt and answer together")

    encrypt: bool = Field(default=False, description="seal weights and data sets at rest, by tenant")
    master_key_file: Path | None = Field(
        default=None, description="64 hex digits; None: master.key in this layer's folder, made once"
    )
    memory_dir: Path = Field(
        default=Path("/dev/shm"),  # noqa: S108 (it is in memory, and ours alone below a private folder)
        description="tmpfs where sealed weights are opened",
    )

    trusted_keys_dir: Path | None = Field(
        default=None, description="public keys; set: only versions that one of them signed are run"
    )

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.state_dir / 'mmodel.db'}"

    @property
    def blobs_dir(self) -> Path:
        """Files by digest, one folder a tenant."""
        return self.state_dir / "blobs"

    @property
    def run_dir(self) -> Path:
        """Sockets and logs of runtimes."""
        return self.state_dir / "run"
