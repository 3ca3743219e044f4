"""Settings of this layer: `OGAI_L0_…` in the environment, `[l0]` in `ogai.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ._kit.config import LayerSettings
from .ports import PROVISIONING_PORT


class Settings(LayerSettings):
    """Where state lives, how the site's networks are cut, how patient the reconciler is."""

    TABLE: ClassVar[str] = "l0"
    model_config = SettingsConfigDict(env_prefix="OGAI_L0_")

    database_url: str = Field(default="", description="SQLAlchemy URL; empty: SQLite in the state folder")
    lab_dir: Path | None = Field(default=None, description="folder of the lab; default: lab/ in the state")
    fabric: str = Field(default="lab", description="switch backend: lab, or an entry point's name")
    images: str = Field(default="folder", description="image backend: folder, or an entry point's name")
    boot: str = Field(default="lab", description="network boot backend: lab, or an entry point's name")
    provisioning_port: int = Field(
        default=PROVISIONING_PORT, ge=0, le=65535, description="port of boot and image service; 0: any free"
    )
    site: str = Field(default="site", description="name of the site in inventories")
    compute_network: str = Field(default="10.80.0.0/12", description="tenants' compute networks lie in it")
    storage_network: str = Field(default="10.96.0.0/12", description="tenants' storage networks lie in it")
    bmc_timeout_s: float = Field(default=30.0, gt=0, description="patience with one Redfish request")
    bmc_verify_tls: bool = Field(default=False, description="refuse BMCs whose certificate is not trusted")
    power_timeout_s: float = Field(default=90.0, gt=0, description="patience with a power change")
    boot_timeout_s: float = Field(default=900.0, gt=0, description="patience from power-on to report")
    attempts: int = Field(default=3, ge=1, description="tries of a step before a node is quarantined")
    retry_s: float = Field(default=1.0, gt=0, description="first pause before a retry; doubles, jittered")
    workers: int = Field(default=16, ge=1, le=256, description="nodes that are advanced at the same time")

    @property
    def lab_folder(self) -> Path:
        """The folder of the lab that this site uses when there is one."""
        return self.lab_dir or self.state_dir / "lab"

    @property
    def images_folder(self) -> Path:
        """Where images are kept."""
        return self.state_dir / "images"

    @property
    def credentials_file(self) -> Path:
        """BMC passwords, private to this user."""
        return self.state_dir / "credentials.json"

    @property
    def database(self) -> str:
        """The database that is in use."""
        return self.database_url or f"sqlite:///{self.state_dir / 'infra.db'}"
