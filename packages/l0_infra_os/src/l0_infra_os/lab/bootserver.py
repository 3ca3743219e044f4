"""DHCP and TFTP on the management network, by dnsmasq, for machines with real firmware.

Only reserved machines are answered.  Firmware gets iPXE by TFTP; iPXE, asking again, gets the URL
of the provisioning service.  dnsmasq starts anew when the reservations change.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
from pathlib import Path

from l0_infra_os.backends.programs import batch

from .folder import LabFolder
from .network import enter
from .plan import Plan

log = logging.getLogger(__name__)
IPXE = Path("/usr/lib/ipxe")
LOOK_EVERY_S = 0.2
EFI_X64, EFI_BC = 7, 9
"""Client architectures of x86-64 UEFI (RFC 4578 and its IANA registry)."""


class BootServer:
    """dnsmasq in the fabric's namespace, kept in step with the lab's reservation files."""

    def __init__(self, plan: Plan, folder: LabFolder) -> None:
        self._plan = plan
        self._folder = folder
        self._address = f"{plan.controller.rsplit('.', 1)[0]}.2"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="bootserver", daemon=True)

    def start(self) -> None:
        """Gives the switch an address to answer from, and follows the reservations."""
        batch([f"address replace {self._address}/24 dev mgmt"], netns=self._plan.fabric_netns)
        self._thread.start()

    def stop(self) -> None:
        """Ends dnsmasq."""
        self._ended.set()
        self._thread.join(timeout=5)

    def _follow(self) -> None:
        """One thread starts dnsmasq and lives as long: the child dies with it."""
        served, process = "", None
        while not self._ended.wait(LOOK_EVERY_S):
            wanted = self._reservations()
            if wanted != served or (process is not None and process.poll() is not None):
                _end(process)
                process, served = self._dnsmasq(), wanted
        _end(process)

    def _reservations(self) -> str:
        texts = []
        for name in ("dhcp-hosts", "boot-url"):
            with contextlib.suppress(FileNotFoundError):
                texts.append((self._folder.path / name).read_text("utf-8"))
        return "\n".join(texts)

    def _dnsmasq(self) -> subprocess.Popen[bytes] | None:
        if not self._folder.boot_url_file.exists():
            return None
        network = self._plan.network.partition("/")[0]
        boot_url = self._folder.boot_url_file.read_text("utf-8").strip()
        command = [
            "dnsmasq",
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--port=0",
            "--user=root",
            "--interface=mgmt",
            "--bind-interfaces",
            "--log-dhcp",
            "--log-facility=-",
            "--leasefile-ro",
            "--no-ping",
            f"--dhcp-range={network},static,255.255.255.0",
            f"--dhcp-hostsfile={self._folder.path / 'dhcp-hosts'}",
            "--dhcp-ignore=tag:!known",
            "--dhcp-option=option:router",
            f"--dhcp-match=set:efi,option:client-arch,{EFI_X64}",
            f"--dhcp-match=set:efi,option:client-arch,{EFI_BC}",
            "--dhcp-userclass=set:ipxe,iPXE",
            "--dhcp-boot=tag:efi,tag:!ipxe,snponly.efi",
            f"--dhcp-boot=tag:ipxe,{boot_url}/${{net0/mac}}",
            "--enable-tftp",
            f"--tftp-root={IPXE}",
        ]
        with open(self._folder.path / "dnsmasq.log", "ab") as output:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *enter(self._plan.fabric_netns), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.poll() is None:
        process.kill()
        process.wait()
