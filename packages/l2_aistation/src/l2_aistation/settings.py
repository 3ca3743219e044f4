"""Settings of this layer: flags > `OGAI_L2_…` > `ogai.toml` [l2] > defaults."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ._kit.config import LayerSettings


class Settings(LayerSettings):
    """What the platform and its agents are told."""

    TABLE: ClassVar[str] = "l2"
    model_config = SettingsConfigDict(env_prefix="OGAI_L2_", extra="forbid", validate_default=True)

    host: str = Field(default="127.0.0.1", description="address that `serve` listens on")
    port: int = Field(default=8472, ge=1, le=65535, description="port that `serve` listens on")
    url: str | None = Field(default=None, description="where clients find the service; None: host and port")
    token: str | None = Field(default=None, description="client's token; None: this machine's operator token")
    database_url: str | None = Field(default=None, description="None: SQLite under the state folder")
    shared_dir: Path | None = Field(
        default=None, description="folder that all nodes share; None: state folder/shared"
    )
    cache_dir: Path | None = Field(
        default=None,
        description="folder on a node's own disk with data sets, each under its digest (sha256-...)",
    )
    broker_url: str | None = Field(default=None, description="Redis URL; None: a private server is started")
    broker_listen: str | None = Field(
        default=None, description="address (and :port) where the private broker listens for agents"
    )
    heartbeat_s: float = Field(default=1.0, gt=0, description="how often a node says that it lives")
    node_lost_s: float = Field(default=5.0, gt=0, description="silence after which a node counts as lost")
    grace_s: float = Field(default=5.0, ge=0, description="time between SIGTERM and SIGKILL")
    hold_limit_s: float = Field(
        default=60.0, ge=0, description="how long a held job waits for a stand-in before it queues again"
    )
    start_limit_s: float = Field(
        default=120.0, gt=0, description="how long a start may take before it counts as a fault"
    )
    power_source: Literal["infra-os"] | None = Field(
        default=None, description="who is asked whether a silent node is off"
    )
    engine: Literal["agent", "slurm", "kubernetes"] | None = Field(
        default=None,
        description="who starts tasks; None: agents on imported nodes, else this machine",
    )
    slurm_arguments: list[str] = Field(
        default_factory=list, description="more arguments for sbatch, such as --partition=NAME"
    )
    kubernetes_namespace: str = Field(default="default", description="where the engine's pods live")
    kubernetes_image: str | None = Field(
        default=None, description="image with this package and the jobs' needs"
    )
    kubernetes_claim: str | None = Field(
        default=None,
        description="persistent volume claim of the shared folder; None: the nodes' own mount of it",
    )
    kubernetes_accelerator: str = Field(
        default="nvidia.com/gpu", description="the device plug-in's resource for accelerators"
    )
    node_python: str | None = Field(
        default=None, description="the nodes' interpreter with this package; None: this one's path"
    )
    accelerator_reserve_bytes: dict[str, int] = Field(
        default_factory=dict, description="by model: memory of each accelerator that no part may have"
    )
    what_if_per_minute: int = Field(
        default=60, ge=1, description="how often each user may ask what if, in the long run"
    )
    spec_limit_bytes: int = Field(default=1_000_000, ge=1000, description="largest accepted job-spec")
    master_ports: str = Field(default="29500-31499", description="ports for the rendezvous of attempts")
    log_tail_lines: int = Field(default=200, ge=10, description="lines of a rank's log kept with its exit")

    @property
    def shared(self) -> Path:
        """The folder that all nodes share, as this machine sees it."""
        return self.shared_dir if self.shared_dir is not None else self.state_dir / "shared"

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.state_dir / 'aistation.db'}"

    @property
    def service_url(self) -> str:
        """Where a client finds the service."""
        return self.url or f"http://{self.host}:{self.port}"
