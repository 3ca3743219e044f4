"""The probe's answer, typed.  Unknown fields are ignored: a newer probe may say more."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from l1_podsys._kit.documents import describe
from l1_podsys._kit.problems import Failed

SCHEMA = "podsys.facts/v1"


class _Said(BaseModel):
    model_config = ConfigDict(extra="ignore")


class OperatingSystem(_Said):
    """From os-release."""

    id: str
    version: str = ""
    name: str


class Cpu(_Said):
    """Cores that this host may use."""

    cores: int
    model: str = ""
    numa_nodes: int = 1


class Memory(_Said):
    """Bytes, and 2 MiB pages reserved."""

    total_bytes: int
    huge_pages: int = 0
    swap_bytes: int = 0


class Interface(_Said):
    """One network interface."""

    name: str
    mac: str = ""
    mtu: int | None = None
    state: str = ""
    speed_mbps: int | None = None
    address: str | None = None


class PciDevice(_Said):
    """One PCI Express function; `acs_control` is the ACS control register, None without ACS."""

    address: str
    kind: str = Field(alias="class")
    vendor: str
    device: str
    numa: int | None = None
    driver: str | None = None
    current_link_speed: str | None = None
    current_link_width: str | None = None
    max_link_speed: str | None = None
    max_link_width: str | None = None
    max_payload: int | None = None
    max_payload_supported: int | None = None
    max_read_request: int | None = None
    relaxed_ordering: bool | None = None
    acs_control: int | None = None


class Gpu(_Said):
    """One GPU as its driver names it."""

    pci: str
    model: str
    memory_bytes: int = 0


class Nvidia(_Said):
    """The loaded NVIDIA driver; empty without one."""

    driver: str = ""
    flavour: str = ""
    gpus: list[Gpu] = Field(default_factory=list)


class InfinibandPort(_Said):
    """One port of an RDMA device."""

    device: str
    port: int
    state: str = ""
    rate: str = ""
    link_layer: str = ""


class FileState(_Said):
    """How a path stands: kind is file, link, absent, unreadable or other."""

    kind: str
    mode: str | None = None
    owner: str | None = None
    group: str | None = None
    digest: str | None = None
    text: str | None = None
    target: str | None = None
    why: str | None = None


class SettingState(_Said):
    """A kernel setting; None where the kernel has no such setting."""

    value: str | None
    settable: bool


class UserState(_Said):
    """A user as the host knows it."""

    uid: int
    home: str
    shell: str
    groups: list[str]


class UnitState(_Said):
    """A systemd unit; `log` holds its newest lines where it is loaded and not active."""

    load: str
    active: str
    sub: str = ""
    enabled: str = ""
    result: str = ""
    restarts: int | None = 0
    log: list[str] = Field(default_factory=list)


class Mount(_Said):
    """The file system behind a path."""

    mount: str
    type: str
    free_bytes: int
    writable: bool


class Answers(_Said):
    """What the plan asked about."""

    files: dict[str, FileState] = Field(default_factory=dict)
    sysctl: dict[str, SettingState] = Field(default_factory=dict)
    users: dict[str, UserState | None] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)
    units: dict[str, UnitState] = Field(default_factory=dict)
    mounts: dict[str, Mount | None] = Field(default_factory=dict)
    programs: dict[str, bool] = Field(default_factory=dict)


class Facts(_Said):
    """Everything that one probe run says about one host."""

    schema_: str = Field(alias="schema")
    hostname: str
    os: OperatingSystem
    kernel: str
    arch: str
    cpu: Cpu
    memory: Memory
    python: str
    user_id: int = 0
    cmdline: list[str] = Field(default_factory=list)
    container: str | None = None
    boot_id: str = ""
    nics: list[Interface] = Field(default_factory=list)
    pci: list[PciDevice] = Field(default_factory=list)
    nvidia: Nvidia = Field(default_factory=Nvidia)
    infiniband: list[InfinibandPort] = Field(default_factory=list)
    kernel_log: list[str] = Field(default_factory=list)
    answers: Answers = Field(default_factory=Answers)
    took_s: float = 0.0
    cpu_s: float = 0.0


def parse_facts(output: str) -> Facts:
    """The facts in a probe's output; `Failed` where there are none (a login banner is skipped)."""
    line = next((line for line in reversed(output.splitlines()) if line.startswith("{")), "")
    try:
        value: dict[str, Any] = json.loads(line)
        if value.get("schema") != SCHEMA:
            raise Failed(f"the probe answered {value.get('schema')!r}, not {SCHEMA!r}")
        return Facts.model_validate(value)
    except ValidationError as error:
        raise Failed(f"the probe's answer is off: {describe(error)}") from error
    except ValueError as error:
        raise Failed("the probe gave no answer", why=output.strip()[-300:] or "no output") from error
