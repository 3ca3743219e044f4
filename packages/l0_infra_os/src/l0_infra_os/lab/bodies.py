"""Bodies of machines without firmware: a container with systemd, or a plain process."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from l0_infra_os._kit.problems import Failed
from l0_infra_os.backends.programs import ENVIRONMENT_PATH, batch

from . import cgroups
from .disk import Disk, mount_command
from .firmware import BOOT_DISK, POWER_OFF
from .folder import REGISTER_VARIABLE, LabFolder
from .network import enter, processes_in
from .plan import Machine, Plan
from .server import Outcome, Source

REBOOT_STATUS = 133
"""systemd-nspawn's exit status when the system inside asked for a restart."""

LAST_BREATH_S = 10.0


PRIVATE = (
    "unshare",
    *("--mount", "--propagation", "slave"),
    *("--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
)
"""Mounts and processes of a machine are in namespaces of its own: no mount can outlive it, and when
the first process is killed the kernel ends all others, whatever they did to get away."""


class Program:
    """At most one running program: started, waited for, and ended with all that it started."""

    def __init__(self, plan: Plan, log: Path) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = log
        self._environment = {**os.environ, REGISTER_VARIABLE: plan.id}
        self._environment["PATH"] = f"{os.environ.get('PATH', '')}:{ENVIRONMENT_PATH}"

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        process = self._process
        return process.pid if process and process.poll() is None else None

    def run(self, command: Sequence[str], cut: threading.Event, **environment: str) -> int | None:
        """Runs a command to its end; None when the power was cut before it started.

        The command dies with this process, however that ends (and with the thread that called).
        """
        with self._lock:
            if cut.is_set():
                return None
            with open(self._log, "ab") as log:
                self._process = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**self._environment, **environment},
                    start_new_session=True,
                )
        status = self._process.wait()
        self._end_group()
        return status

    def terminate(self) -> None:
        """Asks the program to end: the first process of its namespace, or itself."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                return
            pid = self._process.pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
            os.kill(int(children[0]) if children else pid, signal.SIGTERM)

    def kill(self) -> None:
        """Ends the program and its process group."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._end_group()

    def _end_group(self) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                return


def firmware_command(folder: Path, kind: str) -> list[str]:
    """The network boot of a machine without a BIOS."""
    return [sys.executable, "-m", "l0_infra_os.lab.firmware", str(folder), kind]


class NspawnBody:
    """A machine that boots a real operating system in systemd-nspawn, over an overlay disk."""

    def __init__(self, plan: Plan, machine: Machine, folder: LabFolder) -> None:
        self.stage = ""
        self._plan = plan
        self._machine = machine
        self._folder = folder.machine(machine)
        self._disk = Disk(self._folder)
        self._program = Program(plan, self._folder / "console.log")

    @property
    def pid(self) -> int | None:
        """The firmware's process, or systemd-nspawn's."""
        return self._program.pid

    def has_disk(self) -> bool:
        """Whether an image was laid down."""
        return self._disk.image is not None

    def boot(self, source: Source, cut: threading.Event) -> Outcome:
        """Network boot first if asked for, then the disk."""
        try:
            return self._boot(source, cut)
        finally:
            self._lose_power()

    def _boot(self, source: Source, cut: threading.Event) -> Outcome:
        if source == "network":
            self.stage = "network boot"
            inside = [*PRIVATE, *enter(self._plan.netns(self._machine))]
            status = self._program.run([*inside, *firmware_command(self._folder, "nspawn")], cut)
            if status == POWER_OFF:
                return "off"
            if status != BOOT_DISK:
                return "halt"
        if not self.has_disk():
            self.stage = "no bootable device"
            return "halt"
        self.stage = "operating system"
        status = self._program.run(self._system_command(), cut, SYSTEMD_NSPAWN_API_VFS_WRITABLE="network")
        return "reboot" if status == REBOOT_STATUS else "off"

    def shut_down(self) -> None:
        """systemd-nspawn takes SIGTERM as the power button."""
        self._program.terminate()

    def kill(self) -> None:
        """Kills the first process of the machine's namespace, and with it all of them."""
        self._program.kill()

    def _system_command(self) -> list[str]:
        """In a mount namespace of its own, so that no mount can outlive the machine."""
        disk, image = self._disk.path, self._disk.image or ""
        script = [
            *(
                f"echo $$ > {shlex.quote(str(path))}"
                for path in cgroups.make(self._plan.id, self._machine.name)
            ),
            shlex.join(mount_command(disk, image)),
            *self._open_the_way(disk / "root"),
            f"exec {shlex.join(self._nspawn(disk / 'root'))}",
        ]
        return [*PRIVATE, "sh", "-ec", "\n".join(script)]

    def _lose_power(self) -> None:
        """Returns when no process of the machine is left and its NICs are dark and have forgotten all."""
        netns, name = self._plan.netns(self._machine), self._machine.name
        deadline = time.monotonic() + LAST_BREATH_S
        while pids := {*cgroups.processes(self._plan.id, name), *processes_in(netns)}:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise Failed(f"processes of {name} do not end: {sorted(pids)}")
            time.sleep(0.01)
        cgroups.remove(self._plan.id, name)
        commands = [f"link set dev {port.nic} down" for port in self._machine.ports]
        commands += [f"address flush dev {port.nic}" for port in self._machine.ports]
        batch(commands, netns=netns, force=True)

    def _open_the_way(self, root: Path) -> list[str]:
        """Users of the node must pass through the folders above a mount (not list them)."""
        lines = []
        for mount in self._plan.mounts:
            for folder in reversed(mount.target.parents):
                inside = shlex.quote(f"{root}{folder}")
                lines.append(f"mkdir -p {inside}; chmod o+x {inside}")
        return lines

    def _nspawn(self, root: Path) -> list[str]:
        command = [
            "systemd-nspawn",
            "--quiet",
            "--boot",
            "--register=no",
            "--keep-unit",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--console=pipe",
            "--capability=CAP_NET_ADMIN",
            f"--network-namespace-path=/run/netns/{self._plan.netns(self._machine)}",
            f"--machine=ogai-{self._plan.id}-{self._machine.name}",
            f"--uuid={self._machine.uuid}",
            f"--directory={root}",
        ]
        for mount in self._plan.mounts:
            flag = "--bind" if mount.mode == "rw" else "--bind-ro"
            command.append(f"{flag}={_escaped(mount.source)}:{_escaped(mount.target)}")
        tenant = self._disk.storage
        if self._plan.storage is not None and tenant:
            share = self._plan.storage / tenant
            share.mkdir(parents=True, exist_ok=True)
            command.append(f"--bind={_escaped(share)}:/srv/storage")
        return [*command, "systemd.show_status=yes"]


def _escaped(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace(":", "\\:")


class ProcessBody:
    """A machine that is a supervised process: it can be inspected, and cannot run a system."""

    def __init__(self, plan: Plan, machine: Machine, folder: LabFolder) -> None:
        self.stage = ""
        self._folder = folder.machine(machine)
        self._program = Program(plan, self._folder / "console.log")

    @property
    def pid(self) -> int | None:
        """The process that stands for the machine."""
        return self._program.pid

    def has_disk(self) -> bool:
        """It has none."""
        return False

    def boot(self, source: Source, cut: threading.Event) -> Outcome:
        """Network boot as far as a process can; there is no disk to boot."""
        if source == "disk":
            self.stage = "no bootable device"
            return "halt"
        self.stage = "network boot"
        status = self._program.run(firmware_command(self._folder, "process"), cut)
        return "off" if status == POWER_OFF else "halt"

    def shut_down(self) -> None:
        """A process takes SIGTERM."""
        self._program.terminate()

    def kill(self) -> None:
        """Ends the process."""
        self._program.kill()
