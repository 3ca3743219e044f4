"""A body with real firmware: a virtual machine under QEMU's translator, UEFI, NVMe disk, PXE.

`-accel tcg` everywhere: nested virtualisation is not to be had on many hosts, and where it seems
to be, ordinary kernels may not start.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from pathlib import Path

from l0_infra_os.backends.programs import run

from .bodies import Program
from .folder import LabFolder, register_folder
from .network import enter
from .plan import Machine, Plan, Port
from .server import Outcome, Source

OVMF_CODE = Path("/usr/share/OVMF/OVMF_CODE.fd")
OVMF_VARIABLES = Path("/usr/share/OVMF/OVMF_VARS.fd")


class QemuBody:
    """One virtual machine; its serial console goes to `console.log`."""

    def __init__(self, plan: Plan, machine: Machine, folder: LabFolder) -> None:
        self.stage = ""
        self._plan = plan
        self._machine = machine
        self._folder = folder.machine(machine)
        self._disk = self._folder / "disk.raw"
        self._socket = register_folder() / plan.id / f"{machine.name}.qmp"
        self._program = Program(plan, self._folder / "qemu.log")
        self._monitor = Monitor(self._socket)

    @property
    def pid(self) -> int | None:
        """QEMU's process."""
        return self._program.pid

    def has_disk(self) -> bool:
        """Firmware tries the disk first by itself, and the network after it."""
        return True

    def boot(self, source: Source, cut: threading.Event) -> Outcome:
        """Runs the machine until it powers off, restarts or loses its power."""
        self.stage = "network boot" if source == "network" else "operating system"
        self._prepare()
        self._monitor.follow(cut)
        status = self._program.run(self._command(source), cut)
        if status not in (0, None) and not cut.is_set():
            self.stage = "the virtual machine failed"
            return "halt"
        return "reboot" if self._monitor.restarted else "off"

    def shut_down(self) -> None:
        """The power button."""
        self._monitor.press_power_button()

    def kill(self) -> None:
        """Ends QEMU."""
        self._program.kill()

    def _prepare(self) -> None:
        if not self._disk.exists():
            run(["qemu-img", "create", "-q", "-f", "raw", str(self._disk), str(self._machine.disk_bytes)])
        # Fresh firmware variables at every start: the BMC's override alone decides what is booted.
        shutil.copyfile(OVMF_VARIABLES, self._folder / "variables.fd")
        wiring = "".join(f"{port.mac} {self._wire(port)}\n" for port in self._machine.ports)
        (self._folder / "wiring").write_text(wiring, "utf-8")
        self._socket.unlink(missing_ok=True)

    def _wire(self, port: Port) -> str:
        machine = self._machine
        return json.dumps(
            {
                "name": port.nic,
                "mac": port.mac,
                "link_gbps": port.link_gbps,
                "fabric": "ethernet",
                "segment": port.segment,
                "lldp": {"leaf": machine.leaf, "rack": machine.rack, "port": port.switch_port},
            },
            separators=(",", ":"),
        )

    def _command(self, source: Source) -> list[str]:
        machine, folder = self._machine, self._folder
        from_network = source == "network"
        command = [
            *enter(self._plan.fabric_netns),
            "qemu-system-x86_64",
            *("-machine", "q35,usb=off", "-accel", "tcg,thread=multi", "-cpu", "max"),
            *("-smp", str(machine.cpu_cores), "-m", f"{machine.memory_bytes >> 20}M"),
            *("-display", "none", "-vga", "none", "-nodefaults", "-action", "reboot=shutdown"),
            *(
                "-chardev",
                f"file,id=console,path={folder / 'console.log'},append=on",
                "-serial",
                "chardev:console",
            ),
            *("-qmp", f"unix:{self._socket},server=on,wait=off"),
            *("-drive", f"if=pflash,format=raw,readonly=on,file={OVMF_CODE}"),
            *("-drive", f"if=pflash,format=raw,file={folder / 'variables.fd'}"),
            *(
                "-smbios",
                f"type=1,manufacturer=OGAI,product={machine.model},serial={machine.serial},uuid={machine.uuid}",
            ),
            *("-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=no"),
            *("-fw_cfg", f"name=opt/ogai/wiring,file={folder / 'wiring'}"),
            *("-device", "virtio-rng-pci"),
            *(
                "-drive",
                f"if=none,id=disk0,format=raw,file={self._disk},cache=unsafe,discard=unmap,detect-zeroes=unmap",
            ),
            *("-device", f"nvme,drive=disk0,serial={machine.serial}-0,bootindex={1 if from_network else 0}"),
        ]
        for port in machine.ports:
            # Only the management NIC is a boot device: firmware would wait on each of the others.
            boot = f",bootindex={0 if from_network else 1}" if port is machine.management else ""
            command += [
                *("-netdev", f"tap,id={port.nic},ifname={port.interface},script=no,downscript=no"),
                *("-device", f"virtio-net-pci,netdev={port.nic},mac={port.mac},romfile={boot}"),
            ]
        return command


class Monitor:
    """QEMU's control socket: hears why the machine ended, and presses its power button."""

    def __init__(self, path: Path) -> None:
        self.restarted = False
        self._path = path
        self._connection: socket.socket | None = None

    def follow(self, cut: threading.Event) -> None:
        """Listens, in a thread of its own, to the machine that is about to start."""
        self.restarted = False
        threading.Thread(target=self._listen, args=(cut,), daemon=True).start()

    def press_power_button(self) -> None:
        """Asks the system inside to shut down."""
        self._say("system_powerdown")

    def _say(self, command: str) -> None:
        if self._connection is not None:
            try:
                self._connection.sendall(json.dumps({"execute": command}).encode() + b"\n")
            except OSError:
                return

    def _listen(self, cut: threading.Event) -> None:
        deadline = time.monotonic() + 20
        while not cut.is_set() and time.monotonic() < deadline:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(self._path))
            except OSError:
                connection.close()
                time.sleep(0.05)
                continue
            self._connection = connection
            with connection:
                self._say("qmp_capabilities")
                self._hear(connection)
            self._connection = None
            return

    def _hear(self, connection: socket.socket) -> None:
        try:
            for line in connection.makefile("r", encoding="utf-8"):
                event = json.loads(line)
                if event.get("event") == "SHUTDOWN":
                    self.restarted = event["data"].get("reason") == "guest-reset"
        except (OSError, ValueError):
            return
