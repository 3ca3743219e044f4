"""The one process that is a running lab: it holds the BMCs and the machines' power.

`python -m l0_infra_os.lab.keeper FOLDER OWNER` is started by `Lab.up`.  Everything it starts dies
with it, whatever ends it; it ends itself, and cleans up, on SIGTERM and when its owner is gone.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l0_infra_os._kit.problems import BadInput, Failed, Problem

from .bmc import Bmcs
from .bodies import NspawnBody, ProcessBody
from .cleaning import sweep
from .faults import LINK_FAULTS, check_fault, clear_link_fault, port_of, set_link_fault
from .folder import Entry, LabFolder, Process
from .plan import Machine, Plan
from .server import Body, Server

log = logging.getLogger(__name__)


class Keeper:
    """A lab that runs in this process."""

    def __init__(self, folder: LabFolder, plan: Plan) -> None:
        self.folder = folder
        self.plan = plan
        self.servers = {
            machine.name: Server(machine, _body(plan, machine, folder)) for machine in plan.machines
        }
        self.bmcs = Bmcs(self.servers.values(), folder.credentials(), folder.path)
        self.bench = None
        if plan.kind == "qemu":
            from .bootserver import BootServer

            self.bench = BootServer(plan, folder)

    def start(self) -> None:
        """Plugs everything in; the machines' power is off."""
        if self.bench is not None:
            self.bench.start()
        for server in self.servers.values():
            server.start()
        self.bmcs.open_all()

    def stop(self) -> None:
        """Pulls every plug."""
        self.bmcs.shut_all()
        closing = [threading.Thread(target=server.close) for server in self.servers.values()]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        if self.bench is not None:
            self.bench.stop()

    def answer(self, request: dict[str, Any]) -> Any:
        """Carries out one request of the control socket."""
        actions: dict[str, Callable[..., Any]] = {
            "status": self.status,
            "inject": self.inject,
            "clear": self.clear,
        }
        action = actions.get(str(request.pop("do", "")))
        if action is None:
            raise BadInput("unknown request", field="do")
        return action(**request)

    def status(self) -> list[dict[str, Any]]:
        """One row for each machine."""
        return [
            {
                "name": name,
                "kind": self.plan.kind,
                "power": server.power.lower(),
                "stage": server.stage,
                "bmc": f"127.0.0.1:{server.machine.bmc_port}",
                "leaf": server.machine.leaf,
                "rack": server.machine.rack,
                "mac": server.machine.management.mac,
                "serial": server.machine.serial,
                "pid": server.body.pid,
                "faults": sorted(server.faults),
            }
            for name, server in self.servers.items()
        ]

    def inject(self, machine: str, fault: str, segment: str = "compute", value: float | None = None) -> None:
        """Puts a fault into a machine."""
        server = self._server(machine)
        check_fault(fault)
        if fault in LINK_FAULTS:
            set_link_fault(self.plan, port_of(server.machine, segment), fault, value)
            server.faults[f"{fault} {segment}"] = value
        elif fault == "power-loss":
            server.reset("ForceOff")
        else:
            server.faults[fault] = True
            if fault == "bmc-dead":
                self.bmcs.shut(machine)

    def clear(self, machine: str, fault: str | None = None) -> None:
        """Takes one fault, or all, out of a machine."""
        server = self._server(machine)
        if fault is not None:
            check_fault(fault)
        for name in list(server.faults):
            kind, _, segment = name.partition(" ")
            if fault not in (None, kind):
                continue
            if kind in LINK_FAULTS:
                clear_link_fault(self.plan, port_of(server.machine, segment), kind)
            if kind == "bmc-dead":
                self.bmcs.open(machine)
            del server.faults[name]

    def _server(self, name: str) -> Server:
        if name not in self.servers:
            raise BadInput(f"no machine {name!r}; there are {', '.join(self.servers)}", field="machine")
        return self.servers[name]


def _body(plan: Plan, machine: Machine, folder: LabFolder) -> Body:
    if plan.kind == "process":
        return ProcessBody(plan, machine, folder)
    if plan.kind == "qemu":
        from .qemu import QemuBody

        return QemuBody(plan, machine, folder)
    return NspawnBody(plan, machine, folder)


class Control:
    """The Unix socket on which other processes of the same user talk to the keeper."""

    def __init__(self, keeper: Keeper, path: Path) -> None:
        self._keeper = keeper
        self._lock = threading.Lock()
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        path.chmod(0o600)
        self._socket.listen(16)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw", encoding="utf-8") as stream:
            for line in stream:
                stream.write(json.dumps(self._answer(line)) + "\n")
                stream.flush()

    def _answer(self, line: str) -> dict[str, Any]:
        try:
            with self._lock:
                return {"value": self._keeper.answer(json.loads(line))}
        except Problem as problem:
            words = {"what": problem.what, "why": problem.why, "do": problem.do, "field": problem.field}
            return {"problem": words, "kind": type(problem).__name__}
        except Exception as error:
            log.exception("a request failed")
            return {"problem": {"what": str(error)}, "kind": Failed.__name__}


def wait_for_the_end(owner: Process | None) -> None:
    """Returns on SIGTERM or SIGINT, and when the owner (if there is one) is gone."""
    wake_read, wake_write = os.pipe()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(wake_write, b"x") and None)
    watched: list[int] = [wake_read]
    if owner is not None:
        try:
            watched.append(os.pidfd_open(owner.pid))
        except ProcessLookupError:
            return
        if not owner.alive():
            return
    select.select(watched, [], [])


def main() -> int:
    """Runs the lab of a folder until it is to end, then leaves nothing of it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    folder = LabFolder(Path(sys.argv[1]))
    owner_pid = int(sys.argv[2])
    owner = Process.of(owner_pid) if owner_pid else None
    plan = folder.read_plan()
    me = Process.of(os.getpid())
    if plan is None or me is None or (owner_pid and owner is None):
        return 1
    entry = Entry(plan.id, folder.path, me)
    keeper = Keeper(folder, plan)
    keeper.start()
    entry.write()
    Control(keeper, entry.socket)
    wait_for_the_end(owner)
    log.info("the lab ends")
    keeper.stop()
    sweep(plan.id)
    return 0


if __name__ == "__main__":
    sys.exit(main())
