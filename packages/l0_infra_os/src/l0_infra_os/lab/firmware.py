"""What a machine's firmware and in-band agent do at network boot, for machines without a BIOS.

`python -m l0_infra_os.lab.firmware FOLDER` runs inside the machine's network namespace, in a mount
namespace of its own.  It takes the address that is reserved for the machine, asks the provisioning
service for the order over the management network, carries it out and reports.  Exit status:
0 power off, 10 boot the disk; after a deployment it idles until the power is cut.
"""

from __future__ import annotations

import json
import platform
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l0_infra_os.backends.images.transfer import Mismatch, download

from .disk import Disk
from .plan import Machine

POWER_OFF, BOOT_DISK = 0, 10
RETRY_S = (1.0, 5.0)


class Refusal(Exception):  # noqa: N818 (an answer, not a programming error)
    """An order cannot be carried out; `reason` is the word that the service knows."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Firmware:
    """One network boot of one machine."""

    def __init__(self, folder: Path, *, can_run_an_os: bool, has_network: bool) -> None:
        self.folder = folder
        self.lab = folder.parent.parent
        self.machine = Machine.model_validate_json((folder / "machine.json").read_text("utf-8"))
        self.disk = Disk(folder)
        self.can_run_an_os = can_run_an_os
        self.has_network = has_network

    def run(self) -> int:
        """Carries out orders until one ends the network boot."""
        actions: dict[str, Callable[[dict[str, Any]], int]] = {
            "inspect": self.inspect,
            "deploy": self.deploy,
            "erase": self.erase,
            "local": lambda _order: BOOT_DISK,
        }
        wait = RETRY_S[0]
        while True:
            order = self.ask()
            action = actions.get(str(order.get("action"))) if order else None
            if action is not None and order is not None:
                say(f"order: {order['action']}")
                return action(order)
            time.sleep(random.uniform(wait / 2, wait))
            wait = min(wait * 2, RETRY_S[1])

    def ask(self) -> dict[str, Any] | None:
        """The order for this machine, None while there is no answer."""
        try:
            self.configure()
            with urllib.request.urlopen(f"{self.url}.json", timeout=10) as answer:  # noqa: S310 (the lab's own)
                order: dict[str, Any] = json.load(answer)
                return order
        except (OSError, ValueError) as error:
            say(f"no order yet: {error}")
            return None

    @property
    def url(self) -> str:
        """Where this machine's orders are."""
        base = (self.lab / "boot-url").read_text("utf-8").strip()
        return f"{base}/{self.machine.management.mac}"

    def configure(self) -> None:
        """Brings the management NIC up with the address that is reserved for it (as DHCP gives)."""
        if not self.has_network:
            return
        reservations = json.loads((self.lab / "reservations.json").read_text("utf-8"))
        address = reservations.get(self.machine.management.mac)
        if address is None:
            raise OSError("no address is reserved for this machine")
        nic = self.machine.management.nic
        commands = f"link set dev lo up\naddress replace {address} dev {nic}\nlink set dev {nic} up\n"
        subprocess.run(["ip", "-batch", "-"], input=commands, text=True, check=True, timeout=10)

    def post(self, event: str, body: dict[str, Any], order: dict[str, Any]) -> None:
        """Reports to the service, again and again until it answers; a refusal is final."""
        data = json.dumps({"token": order.get("token"), **body}).encode()
        headers = {"Content-Type": "application/json"}
        while True:
            try:  # the service may have come back at another port: its place is read each time
                request = urllib.request.Request(f"{self.url}/{event}", data, headers)  # noqa: S310
                with urllib.request.urlopen(request, timeout=10):  # noqa: S310
                    return
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    words = error.read(2000).decode(errors="replace")
                    say(f"the service refused {event}: {error}: {words}")
                    return
            except OSError as error:
                say(f"could not report {event}: {error}")
            time.sleep(random.uniform(*RETRY_S))

    def inspect(self, order: dict[str, Any]) -> int:
        """Reports what the machine has inside, and powers off."""
        self.post("facts", self.facts(), order)
        return POWER_OFF

    def facts(self) -> dict[str, Any]:
        """Processor, memory, disks, NICs with the neighbour that their switch port announces."""
        machine = self.machine
        nics = [
            {
                "name": port.nic,
                "mac": port.mac,
                "link_gbps": port.link_gbps,
                "fabric": "ethernet",
                "segment": port.segment,
                "lldp": {"leaf": machine.leaf, "rack": machine.rack, "port": port.switch_port},
            }
            for port in machine.ports
        ]
        return {
            "serial": machine.serial,
            "arch": platform.machine(),
            "cpu": {"model": machine.cpu_model, "cores": machine.cpu_cores},
            "memory_bytes": machine.memory_bytes,
            "disks": [{"name": "disk0", "size_bytes": machine.disk_bytes, "kind": "disk"}],
            "nics": nics,
            "accelerators": [],
        }

    def deploy(self, order: dict[str, Any]) -> int:
        """Fetches the image, checks its digest, lays it down as the disk, reports and idles."""
        try:
            self.post("deployed", self.lay_down(order), order)
        except Refusal as refusal:
            say(f"failed: {refusal.reason}: {refusal}")
            self.post("failed", {"reason": refusal.reason, "detail": str(refusal)}, order)
        return idle()

    def lay_down(self, order: dict[str, Any]) -> dict[str, Any]:
        """The digest and size of what is now the disk; after a `Refusal` the disk is as it was."""
        image = order["image"]
        if not self.can_run_an_os:
            raise Refusal("unsupported", "this machine is a plain process and cannot run an operating system")
        if image["format"] != "tar.zst":
            raise Refusal("image", f"this machine takes a root file system (tar.zst), not {image['format']}")
        arrived = self.folder / "incoming"
        try:
            got = download(image["url"], arrived, sha256=image["sha256"], size=image.get("size"))
            self.disk.lay_down(arrived, order)
        except Mismatch as error:
            raise Refusal("digest", str(error)) from error
        except urllib.error.URLError as error:
            raise Refusal("image", str(error)) from error
        except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
            raise Refusal("disk", _with_output(error)) from error
        finally:
            arrived.unlink(missing_ok=True)
        return {"sha256": got.sha256, "bytes": got.size}

    def erase(self, order: dict[str, Any]) -> int:
        """Empties the disk, looks whether it is empty, reports that and powers off."""
        dropped = self.disk.erase()
        body = {"method": "drop-overlay", "bytes": dropped, "verified": self.disk.is_empty()}
        self.post("erased", body, order)
        return POWER_OFF


def _with_output(error: Exception) -> str:
    output = getattr(error, "stderr", None) or b""
    return f"{error} {output.decode(errors='replace').strip()}".strip()


def idle() -> int:
    """Waits for the power to be cut, as an agent does that has nothing more to do."""
    say("idle until the power is cut")
    while True:
        signal.pause()


def say(text: str) -> None:
    """A line on the machine's console."""
    print(f"firmware: {text}", flush=True)


def main() -> int:
    """Boots the machine of the folder from the network."""
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    return Firmware(folder, can_run_an_os=kind == "nspawn", has_network=kind == "nspawn").run()


if __name__ == "__main__":
    sys.exit(main())
