"""Many machines in one process: real Redfish by sushy-tools, and an agent for each that speaks HTTP.

For tests and measurements of the controller itself.  A machine here has no operating system: its
agent fetches orders and images and reports over the same protocol as a real one.  For machines
that boot, see `l0_infra_os.lab`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from l0_infra_os._kit.files import atomic_write
from l0_infra_os._kit.problems import Failed, Unavailable

USERNAME, PASSWORD = "admin", "correct horse"


@dataclass
class Machine:
    """One machine of a farm; MACs in the order management, compute, storage."""

    name: str
    port: int
    leaf: str
    rack: str
    macs: tuple[str, ...]
    uuid: str
    faults: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def machines(count: int, *, leaves: int = 2, first_port: int | None = None) -> list[Machine]:
    """`count` machines, spread over the leaves, on free ports of loopback."""
    ports = range(first_port, first_port + count) if first_port else _free_ports(count)
    return [
        Machine(
            name=f"m{number}",
            port=port,
            leaf=f"leaf{(number - 1) * leaves // count + 1}",
            rack=f"rack{(number - 1) * leaves // count + 1}",
            macs=tuple(f"02:00:{kind:02x}:00:{number >> 8:02x}:{number & 255:02x}" for kind in (0, 1, 2)),
            uuid=str(uuid.uuid5(uuid.NAMESPACE_OID, f"farm-{number}")),
        )
        for number, port in zip(range(1, count + 1), ports, strict=True)
    ]


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [opened.getsockname()[1] for opened in sockets]


class Farm:
    """A running farm.  Agents read where the boot service is from `boot_url_file`."""

    def __init__(
        self, folder: Path, fleet: Sequence[Machine], *, boot_url_file: Path, power_delay_s: float = 0.0
    ) -> None:
        self.folder = folder
        self.machines = {machine.name: machine for machine in fleet}
        self.boot_url_file = boot_url_file
        self.power_delay_s = power_delay_s
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def addresses(self) -> list[str]:
        """The BMCs' addresses, in order."""
        return [machine.address for machine in self.machines.values()]

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {
            "machines": [asdict(machine) for machine in self.machines.values()],
            "boot_url_file": str(self.boot_url_file),
            "power_delay_s": self.power_delay_s,
            "folder": str(self.folder),
        }
        path = self.folder / "farm.json"
        atomic_write(path, json.dumps(config))
        with open(self.folder / "farm.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "l0_infra_os.testing.farm_process", str(path), str(os.getpid())],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        self._wait_until_up()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + 60
        last = list(self.machines.values())[-1]
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise Unavailable("the farm did not start", why=(self.folder / "farm.log").read_text()[-500:])
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", last.port), 0.2):
                return
            time.sleep(0.05)
        raise Failed("the farm did not start within 60 s")

    def fault(self, name: str, fault: str, value: Any = True) -> None:
        """Injects a fault (or takes it away with None): see `farm_process.FAULTS`."""
        self._call(name, "faults", {fault: value})

    def state(self, name: str) -> dict[str, Any]:
        """What the machine itself knows: power, what is on its disk, what it booted."""
        return self._call(name, "state")

    def reset(self) -> None:
        """All machines off, empty and without faults, as delivered."""
        for name in self.machines:
            self._call(name, "reset")

    def requests(self) -> dict[str, int]:
        """How many Redfish requests all BMCs got, by method."""
        return self._call(next(iter(self.machines)), "requests")

    def _call(self, name: str, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://{self.machines[name].address}/farm/{what}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            result: dict[str, Any] = json.load(answer)
            return result


@contextlib.contextmanager
def farm(folder: Path, count: int, *, boot_url_file: Path, power_delay_s: float = 0.0) -> Iterator[Farm]:
    """A farm of `count` machines for the time of a block."""
    with Farm(folder, machines(count), boot_url_file=boot_url_file, power_delay_s=power_delay_s) as running:
        yield running
