"""The profile: what every host of a cluster shall be.  YAML, unknown fields refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from l1_podsys._kit.documents import Part

UserName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
UnitName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
SettingName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+([./][A-Za-z0-9_*-]+)+$")]
OneLine = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$")]
AbsolutePath = Annotated[str, StringConstraints(pattern=r"^/[^\x00-\x1f\x7f]*$")]


SYSTEM_UNITS = (
    "ssh",
    "sshd",
    "cron",
    "chrony",
    "chronyd",
    "networking",
    "NetworkManager",
    "docker",
    "containerd",
)


class Limit(Part):
    """One line of limits.conf(5)."""

    domain: OneLine = "*"
    type: Literal["soft", "hard", "-"] = "-"
    item: OneLine
    value: Annotated[str, StringConstraints(pattern=r"^(unlimited|infinity|-?\d+)$")]


class OsSettings(Part):
    """Kernel settings and limits; `tuning` names shipped presets, `sysctl` has the last word."""

    tuning: list[str] = Field(default_factory=list)
    sysctl: dict[SettingName, OneLine] = Field(default_factory=dict)
    limits: list[Limit] = Field(default_factory=list)

    @field_validator("sysctl", mode="before")
    @classmethod
    def _numbers_are_fine(cls, value: object) -> object:
        if isinstance(value, dict):
            return {k: str(v) if isinstance(v, int) else v for k, v in value.items()}
        return value


class User(Part):
    """A user with the public keys that open it; `root` is not managed here, so that nobody locks us out."""

    name: UserName
    uid: int | None = Field(default=None, ge=1000, le=60000)
    groups: list[UserName] = Field(default_factory=list)
    shell: AbsolutePath = "/bin/bash"
    keys: list[Annotated[str, StringConstraints(pattern=r"^(ssh|ecdsa|sk)-[^\x00-\x1f]+$")]] = Field(
        default_factory=list
    )
    sudo: bool = False

    @field_validator("name")
    @classmethod
    def _not_root(cls, value: str) -> str:
        if value == "root":
            raise ValueError("root's keys are how we log in; they are not managed by a profile")
        return value


class Time(Part):
    """Time zone, and time servers for systemd-timesyncd or chrony, whichever the host runs."""

    timezone: Annotated[str, StringConstraints(pattern=r"^[A-Za-z]+[A-Za-z0-9/_+-]*$")] = "UTC"
    servers: list[OneLine] = Field(default_factory=list)


class HostsFile(Part):
    """Names of all hosts in /etc/hosts: NAME for management, NAME-SEGMENT for the others."""

    domain: Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]*$")] = ""


class NodeExporter(Part):
    """Prometheus node exporter from an offline bundle; listens on the management address."""

    port: int = Field(default=9100, ge=1, le=65535)
    package: str = "prometheus-node-exporter"


class PythonService(Part):
    """A systemd unit from a wheel.  `{hostname}`, `{id}`, `{address}` are replaced per host."""

    name: UnitName
    wheel: str
    python: AbsolutePath
    command: list[OneLine] = Field(min_length=1)
    environment: dict[Variable, OneLine] = Field(default_factory=dict)
    secrets: dict[Variable, str] = Field(default_factory=dict, description="variable: file on the controller")
    user: UserName = "root"
    restart_s: float = Field(default=1.0, ge=0.1, le=600)
    kill_mode: Literal["mixed", "process"] = Field(
        default="mixed", description="process: what the service started goes on when it restarts"
    )

    @field_validator("name")
    @classmethod
    def _not_the_systems(cls, value: str) -> str:
        if value in SYSTEM_UNITS or value.startswith(("systemd-", "dbus", "getty")):
            raise ValueError(f"{value!r} is a unit of the operating system; give the service another name")
        return value


class Floor(Part):
    """Bounds of one measured value; without any, hosts are compared with their median."""

    at_least: float | None = None
    at_most: float | None = None


class Profile(Part):
    """What every host shall be.  Absent parts are left as they are on the host."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    os: OsSettings | None = None
    hosts_file: HostsFile | None = None
    users: list[User] = Field(default_factory=list)
    time: Time | None = None
    bundle: str | None = Field(default=None, description="folder of an offline bundle")
    node_exporter: NodeExporter | None = None
    python_services: list[PythonService] = Field(default_factory=list)
    versions: dict[str, str] = Field(default_factory=dict, description="component: wanted version")
    expect: dict[str, Floor] = Field(default_factory=dict, description="check: bounds")

    @model_validator(mode="after")
    def _names_once(self) -> Profile:
        for what, names in (
            ("users", [user.name for user in self.users]),
            ("python_services", [service.name for service in self.python_services]),
        ):
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"{what}: {min(twice)!r} is given twice")
        return self
