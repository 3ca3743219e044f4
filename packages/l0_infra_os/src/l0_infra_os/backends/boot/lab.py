"""`LabBoot`: network boot in a lab.  Its files are the DHCP and TFTP servers' configuration.

Machines without a BIOS read the reservation from `reservations.json`; for machines with firmware
the same reservations are given to dnsmasq, which answers real DHCP and TFTP in the fabric.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from l0_infra_os._kit.files import atomic_write
from l0_infra_os._kit.problems import NotFound, Unavailable
from l0_infra_os.ports import BootHost

AGENT_FILES = ("vmlinuz", "agent.img")


class LabBoot:
    """A `Boot` over the files in a lab's folder."""

    def __init__(self, lab_folder: Path) -> None:
        self.folder = lab_folder

    def reserve(self, hosts: Sequence[BootHost], *, boot_url: str) -> None:
        """Answers exactly these machines from now on."""
        if not self.folder.is_dir():
            raise Unavailable(f"no lab is up in {self.folder}", do="infra-os lab up")
        addresses = {host.mac: _with_length(host.address) for host in hosts}
        atomic_write(self.folder / "reservations.json", json.dumps(addresses, indent=1))
        atomic_write(self.folder / "boot-url", f"{boot_url}\n")
        lines = [f"{host.mac},{host.address.partition('/')[0]},{host.hostname},infinite" for host in hosts]
        atomic_write(self.folder / "dhcp-hosts", "".join(f"{line}\n" for line in lines))
        atomic_write(
            self.folder / "dhcp-options", f"tag:ipxe,option:bootfile-name,{boot_url}/${{net0/mac}}\n"
        )

    def script(self, *, order_url: str, local: bool) -> str:
        """The iPXE script: boots the agent, told where its order is, or the machine's own disk."""
        if local:
            return "#!ipxe\nexit 0\n"
        base = order_url.rpartition("/")[0]
        arguments = f"initrd={AGENT_FILES[1]} console=ttyS0 quiet ogai.order={order_url}"
        return (
            "#!ipxe\n"
            f"kernel {base}/files/{AGENT_FILES[0]} {arguments} BOOTIF=${{netX/mac}}\n"
            f"initrd --name {AGENT_FILES[1]} {base}/files/{AGENT_FILES[1]}\n"
            "boot\n"
        )

    def file(self, name: str) -> Path:
        """The agent's kernel or initramfs."""
        if name not in AGENT_FILES:
            raise NotFound(f"no boot file {name!r}", why=f"there are {', '.join(AGENT_FILES)}")
        path = self.folder / "agent" / name
        if not path.is_file():
            raise NotFound(
                f"the boot file {name} has not been made", do="infra-os lab up --kind qemu makes it"
            )
        return path


def _with_length(address: str) -> str:
    return address if "/" in address else f"{address}/24"
