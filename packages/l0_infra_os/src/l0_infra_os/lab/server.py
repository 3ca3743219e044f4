"""A server's power and boot logic: what its BMC commands, and what its body then does.

A body is what runs when the power is on (a container with systemd, a virtual machine, a process).
One thread for each server boots the body, sees it end, and decides what comes next.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from .plan import Machine

log = logging.getLogger(__name__)

Source = Literal["network", "disk"]
Outcome = Literal["off", "reboot", "halt"]
RESET_TYPES = (
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "GracefulRestart",
    "ForceRestart",
    "PowerCycle",
    "Nmi",
)
BOOT_TARGETS = ("None", "Pxe", "Hdd", "UefiHttp")
NETWORK_TARGETS = ("Pxe", "UefiHttp")


class Body(Protocol):
    """What runs while the power is on."""

    stage: str

    def boot(self, source: Source, cut: threading.Event) -> Outcome:
        """Boots and runs until it ends by itself or `cut` is set and `kill` called.

        `halt`: there was nothing to boot; the machine stays powered and does nothing.
        """
        ...

    def has_disk(self) -> bool:
        """Whether there is something on the disk to boot."""
        ...

    def shut_down(self) -> None:
        """Asks the running system to shut down (the power button)."""
        ...

    def kill(self) -> None:
        """Ends whatever runs, now."""
        ...

    @property
    def pid(self) -> int | None:
        """The process of what runs."""
        ...


@dataclass
class BootSetting:
    """The boot source override as Redfish has it."""

    target: str = "None"
    enabled: str = "Disabled"
    mode: str = "UEFI"
    http_uri: str = ""


@dataclass
class Server:
    """One machine with its power state, boot override and injected faults."""

    machine: Machine
    body: Body
    power: str = "Off"
    boot: BootSetting = field(default_factory=BootSetting)
    faults: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._change = threading.Condition()
        self._wanted = False
        self._restart = False
        self._closed = False
        self._cut = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.machine.name, daemon=True)

    def start(self) -> None:
        """Plugs the server in; its power is off."""
        self._thread.start()

    def close(self) -> None:
        """Pulls the plug for good."""
        with self._change:
            self._closed, self._wanted = True, False
            self._cut_power()
            self._change.notify_all()
        self._thread.join(timeout=20)

    def reset(self, kind: str) -> None:
        """Does what a Redfish reset action asks; returns when it is under way."""
        with self._change:
            if kind in ("On", "ForceOn"):
                self._wanted = True
            elif kind in ("ForceRestart", "PowerCycle"):
                self._restart = self._wanted
                self._wanted = True
                self._cut_power()
            elif kind == "ForceOff":
                self._wanted = self._restart = False
                self._cut_power()
            elif kind in ("GracefulShutdown", "GracefulRestart") and self._wanted:
                self._restart = kind == "GracefulRestart"
                self.body.shut_down()
            self._change.notify_all()

    def set_boot(self, **changes: str) -> None:
        """Changes the boot override, unless the BMC has the fault of ignoring that."""
        with self._change:
            if "bmc-ignores-boot" in self.faults:
                return
            for name, value in changes.items():
                setattr(self.boot, name, value)
            if changes.get("target") == "None" or changes.get("enabled") == "Disabled":
                self.boot.target, self.boot.enabled = "None", "Disabled"
            elif "target" in changes and self.boot.enabled == "Disabled":
                self.boot.enabled = "Once"

    @property
    def stage(self) -> str:
        """What the machine is doing, in a word or two."""
        return "off" if self.power == "Off" else self.body.stage

    def _cut_power(self) -> None:
        self._cut.set()
        self.body.kill()

    def _run(self) -> None:
        while True:
            with self._change:
                self.power = "Off"
                self._change.wait_for(lambda: self._wanted or self._closed)
                if self._closed:
                    return
                self.power = "On"
            try:
                self._run_powered()
            except Exception:
                log.exception("%s failed", self.machine.name)
                self._wanted = False

    def _run_powered(self) -> None:
        """Boots again and again until the power is to be off."""
        while True:
            with self._change:
                if not self._wanted:
                    return
                self._cut, self._restart = threading.Event(), False
                source, cut = self._next_source(), self._cut
            log.info("%s boots from %s", self.machine.name, source)
            outcome = self.body.boot(source, cut)
            log.info("%s: %s", self.machine.name, "power cut" if cut.is_set() else outcome)
            with self._change:
                if cut.is_set() or self._restart or outcome == "reboot":
                    continue
                if outcome == "halt":
                    self._change.wait_for(cut.is_set)
                else:
                    self._wanted = False

    def _next_source(self) -> Source:
        """The override's source, used up if it was for once; else the disk, else the network."""
        target = self.boot.target
        if self.boot.enabled == "Once":
            self.boot = BootSetting(mode=self.boot.mode)
        if "boots-disk-anyway" in self.faults or target == "Hdd":
            return "disk"
        if target in NETWORK_TARGETS:
            return "network"
        return "disk" if self.body.has_disk() else "network"
