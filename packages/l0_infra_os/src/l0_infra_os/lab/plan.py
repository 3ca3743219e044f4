"""What a lab consists of, as data: machines, their ports, leaves and addresses.  Pure."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from l0_infra_os.ports import SegmentKind

Kind = Literal["nspawn", "qemu", "process"]
KINDS: tuple[Kind, ...] = ("nspawn", "qemu", "process")

SEGMENT_OF_NIC: dict[str, SegmentKind] = {"mgmt0": "management", "cmp0": "compute", "sto0": "storage"}
LINK_GBPS = {"mgmt0": 1.0, "cmp0": 100.0, "sto0": 100.0}


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Port(_Data):
    """A machine's NIC and the switch port at the other end of its cable."""

    nic: str
    mac: str
    segment: SegmentKind
    link_gbps: float
    interface: str
    switch_port: str


class Mount(_Data):
    """A folder of the host that machines see at `target`; `mode` is ro or rw."""

    source: Path
    mode: Literal["ro", "rw"] = "ro"
    target: Path


class Machine(_Data):
    """One server: identity, hardware, place, ports and the TCP port of its BMC on loopback."""

    name: str
    number: int
    uuid: str
    serial: str
    model: str
    leaf: str
    rack: str
    bmc_port: int
    ports: tuple[Port, ...]
    cpu_cores: int = Field(ge=1)
    cpu_model: str
    memory_bytes: int
    disk_bytes: int

    @property
    def management(self) -> Port:
        """The port it boots from."""
        return self.ports[0]


class Plan(_Data):
    """A whole lab.  `subnet` is the x of 10.71.x.0/24; None where there is no network of its own."""

    id: str
    kind: Kind
    leaves: int
    machines: tuple[Machine, ...]
    subnet: int | None
    mounts: tuple[Mount, ...] = ()
    storage: Path | None = None

    @property
    def controller(self) -> str:
        """The host's address on the management segment."""
        return "127.0.0.1" if self.subnet is None else f"10.71.{self.subnet}.1"

    @property
    def network(self) -> str:
        """The management network."""
        return "127.0.0.0/8" if self.subnet is None else f"10.71.{self.subnet}.0/24"

    @property
    def fabric_netns(self) -> str:
        """The network namespace that holds the switches."""
        return f"ogai-{self.id}-fabric"

    @property
    def host_interface(self) -> str:
        """The host's end of the management uplink."""
        return f"ogai{self.id}"

    def netns(self, machine: Machine) -> str:
        """The network namespace of a machine."""
        return f"ogai-{self.id}-{machine.name}"

    def machine(self, name: str) -> Machine | None:
        """The machine of that name."""
        return next((machine for machine in self.machines if machine.name == name), None)


class Hardware(_Data):
    """What each machine has inside."""

    cpu_cores: int
    cpu_model: str
    memory_bytes: int
    disk_bytes: int


def lab_id(folder: Path) -> str:
    """Six hex digits that name the lab of a folder everywhere on the machine."""
    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]


def make_plan(
    folder: Path,
    *,
    machines: int,
    kind: Kind,
    leaves: int,
    hardware: Hardware,
    bmc_ports: range,
    subnet: int | None,
    mounts: tuple[Mount, ...] = (),
    storage: Path | None = None,
) -> Plan:
    """Lays out a lab: pairs of machines fill the leaves in turn, so that each leaf has neighbours."""
    identity = lab_id(folder)
    made = tuple(
        _machine(identity, number, kind, (number - 1) // 2 % leaves + 1, hardware, bmc_ports[number - 1])
        for number in range(1, machines + 1)
    )
    return Plan(
        id=identity,
        kind=kind,
        leaves=leaves,
        machines=made,
        subnet=subnet,
        mounts=mounts,
        storage=storage,
    )


def _machine(identity: str, number: int, kind: Kind, leaf: int, hardware: Hardware, bmc_port: int) -> Machine:
    name = f"m{number}"
    return Machine(
        name=name,
        number=number,
        uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, f"ogai-lab/{identity}/{name}")),
        serial=f"LAB{identity.upper()}{number:04d}",
        model=f"lab-{kind}",
        leaf=f"leaf{leaf}",
        rack=f"rack{leaf}",
        bmc_port=bmc_port,
        ports=tuple(_port(identity, number, index, nic) for index, nic in enumerate(SEGMENT_OF_NIC)),
        **hardware.model_dump(),
    )


def _port(identity: str, number: int, index: int, nic: str) -> Port:
    lab = ":".join(identity[i : i + 2] for i in (0, 2, 4))
    return Port(
        nic=nic,
        mac=f"02:{lab}:{number:02x}:{index:02x}",  # 02: locally administered
        segment=SEGMENT_OF_NIC[nic],
        link_gbps=LINK_GBPS[nic],
        interface=f"m{number}-{nic[:-1]}",
        switch_port=f"swp{number}",
    )
