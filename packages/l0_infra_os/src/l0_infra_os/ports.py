"""What this layer needs from devices and engines: `Bmc`, `Fabric`, `ImageStore` and `Boot`.

A backend implements one Protocol and passes its conformance kit in `l0_infra_os.testing`.
Every method may be called again after a crash: asking twice for the same thing is the same thing.
Errors are `Problem`s: `Unavailable` when the device does not answer, `Failed` when it refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from .core.isolation import MANAGEMENT, Segment, SegmentKind

__all__ = [
    "MANAGEMENT",
    "PROVISIONING_PORT",
    "Bmc",
    "BmcConnector",
    "BmcNic",
    "Boot",
    "BootDuration",
    "BootHost",
    "BootOverride",
    "BootTarget",
    "Credentials",
    "Fabric",
    "Image",
    "ImageFormat",
    "ImageStore",
    "Management",
    "PowerAction",
    "PowerState",
    "Segment",
    "SegmentKind",
    "SystemInventory",
]

PROVISIONING_PORT = 8479
"""Where the provisioning service listens on the management segment (`Fabric.management`)."""

PowerState = Literal["on", "off", "changing", "unknown"]
PowerAction = Literal["on", "off", "cycle"]
BootTarget = Literal["network", "disk"]
BootDuration = Literal["once", "continuous"]


# ---------------------------------------------------------------------------------------- BMC


@dataclass(frozen=True)
class Credentials:
    """How to sign in at a BMC; the password never shows in a representation."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class BootOverride:
    """What the machine boots next: from the network or from its disk, once or from now on."""

    target: BootTarget
    duration: BootDuration = "once"


@dataclass(frozen=True)
class BmcNic:
    """A network port as the BMC reports it; `mac` in lower case with colons."""

    mac: str
    name: str = ""
    link_gbps: float | None = None


@dataclass(frozen=True)
class SystemInventory:
    """What a BMC knows of its machine without the machine's help; `name` is what the site calls it."""

    uuid: str
    serial: str
    name: str = ""
    manufacturer: str = ""
    model: str = ""
    cpu_count: int = 0
    cpu_model: str = ""
    arch: str = ""
    memory_bytes: int = 0
    nics: tuple[BmcNic, ...] = ()
    power: PowerState = "unknown"


class Bmc(Protocol):
    """One machine's management controller, over one pooled session that is reused.

    Wrong password: `Unauthorized`; no answer at the address: `Unavailable`; refused: `Failed`.
    """

    def inventory(self) -> SystemInventory:
        """Identity, processors, memory and network ports, read afresh."""
        ...

    def power(self) -> PowerState:
        """The power state, read afresh."""
        ...

    def set_power(self, action: PowerAction) -> None:
        """Asks for the power state (off is immediate, not a shutdown); done when accepted."""
        ...

    def set_boot(self, override: BootOverride) -> PowerState:
        """Sets the boot override and reads it back; `Failed` when the BMC kept another one.

        The answer is the power state that the same reading showed.
        """
        ...

    def close(self) -> None:
        """Ends the session."""
        ...


class BmcConnector(Protocol):
    """Opens BMCs; keeps one session per address and drops it when the credentials change."""

    def connect(self, address: str, credentials: Credentials) -> Bmc:
        """The BMC at `address` (`host:port` or `https://host:port`), signed in."""
        ...

    def close(self) -> None:
        """Ends every session."""
        ...


# ------------------------------------------------------------------------------------- fabric


@dataclass(frozen=True)
class Management:
    """The management segment: the controller's own address there, and the network (CIDR)."""

    controller: str
    network: str


@runtime_checkable
class Fabric(Protocol):
    """The switches: which port (named by the NIC's MAC) is on which segment.

    Two verbs only: command what should be, look at what is.  A port that is on no segment is
    isolated: it reaches nobody.  Nothing is trusted that was not observed.
    """

    @property
    def management(self) -> Management:
        """Where the controller stands on the management segment."""
        ...

    def apply(self, desired: Mapping[str, Segment | None]) -> None:
        """Puts every named port on its segment (None: isolated), making segments as needed.

        Ports that are not named stay as they are.  A port moves by being set, so that a segment
        is never torn down because its last port left in between.  `Unavailable` when a switch
        does not answer; a caller repeats the same call.
        """
        ...

    def observe(self, macs: Sequence[str]) -> dict[str, str | None]:
        """The name of the segment that each port is on right now, None for an isolated port.

        A port that cannot be seen (unknown MAC) is absent from the answer: it counts as unknown,
        never as isolated.  `Unavailable` when nothing can be seen at all.
        """
        ...


# ------------------------------------------------------------------------------------- images

ImageFormat = Literal["tar.zst", "raw.zst"]


@dataclass(frozen=True)
class Image:
    """An operating system image: `digest` is `sha256:…` of the file as it is served.

    `tar.zst` is a root file system, `raw.zst` a whole disk.
    """

    name: str
    digest: str
    format: ImageFormat
    size_bytes: int


class ImageStore(Protocol):
    """Images by name and digest.  A file under a digest never changes."""

    def add(self, name: str, path: Path, *, format: ImageFormat, digest: str | None = None) -> Image:  # noqa: A002
        """Takes a file in, hashing it; `BadInput` when it has not the `digest` that was promised."""
        ...

    def get(self, name: str) -> Image:
        """The image of that name or digest; `NotFound` says which there are."""
        ...

    def list(self) -> list[Image]:
        """All images, by name."""
        ...

    def path(self, digest: str) -> Path:
        """The file to serve; `NotFound` when there is none."""
        ...

    def verify(self, digest: str) -> None:
        """Hashes the file again; `Failed` when its bytes are not what the digest says."""
        ...

    def remove(self, name: str) -> None:
        """Forgets a name, and the file when no other name has it."""
        ...


# --------------------------------------------------------------------------------------- boot


@dataclass(frozen=True)
class BootHost:
    """A machine that may boot from the network: its management NIC and the address it gets."""

    mac: str
    address: str
    hostname: str


class Boot(Protocol):
    """Network boot: answers DHCP for known machines and hands them to the provisioning service."""

    def reserve(self, hosts: Sequence[BootHost], *, boot_url: str) -> None:
        """Answers exactly these machines from now on (the whole set, not an addition).

        Firmware that asks by PXE or HTTP gets iPXE, which then loads `{boot_url}/{mac}`.
        """
        ...

    def script(self, *, order_url: str, local: bool) -> str:
        """The iPXE script: boots the agent, told where its order is, or (`local`) the own disk."""
        ...

    def file(self, name: str) -> Path:
        """A file that a script names (kernel, initramfs); `NotFound` for any other name."""
        ...
