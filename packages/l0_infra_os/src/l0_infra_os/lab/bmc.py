"""The lab's BMCs: the sushy-tools Redfish emulator, one TCP port for each machine, state in memory.

The emulator is one Flask application for many systems.  Here each port shows exactly one system,
as a BMC does: the port sets which server a request is about, and the emulator's drivers look there.
Where its answers are fixed texts, they are completed from the machine's definition.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l0_infra_os._kit.files import atomic_write
from l0_infra_os._kit.problems import Unavailable

from .folder import Credentials
from .server import BOOT_TARGETS, RESET_TYPES, Server

MANUFACTURER = "OGAI"
CURRENT: ContextVar[BmcDrivers] = ContextVar("current_bmc")
"""The BMC that the request at hand is for."""


@dataclass
class BmcDrivers:
    """The emulator's drivers for one machine."""

    server: Server
    drivers: dict[str, Any] = field(default_factory=dict)


class Bmcs:
    """All BMCs of a lab in one process, each listening on its own loopback port."""

    def __init__(self, servers: Iterable[Server], credentials: Credentials, folder: Path) -> None:
        self._application = _application(folder, credentials)
        self._bmcs = {server.machine.name: _drivers_of(server) for server in servers}
        self._listening: dict[str, _Listener] = {}

    def open(self, name: str) -> None:
        """Starts to answer for a machine."""
        if name not in self._listening:
            self._listening[name] = _Listener(self._bmcs[name], self._application)

    def open_all(self) -> None:
        """Starts to answer for every machine."""
        for name in self._bmcs:
            self.open(name)

    def shut(self, name: str) -> None:
        """Stops answering, and drops open connections: to its users the BMC is dead."""
        listener = self._listening.pop(name, None)
        if listener is not None:
            listener.close()

    def shut_all(self) -> None:
        """Stops answering for every machine."""
        for name in list(self._listening):
            self.shut(name)


class _Listener:
    """One BMC's HTTP server."""

    def __init__(self, bmc: BmcDrivers, application: Callable[..., Any]) -> None:
        from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

        connections: set[socket.socket] = set()

        class QuietHandler(WSGIRequestHandler):
            def log(self, *args: Any, **kwargs: Any) -> None:
                """Requests are not logged: headers carry passwords, and there are many."""

        class OneBmcServer(ThreadedWSGIServer):
            daemon_threads = True

            def process_request(self, request: Any, client_address: Any) -> None:
                connections.add(request)
                super().process_request(request, client_address)

            def shutdown_request(self, request: Any) -> None:
                connections.discard(request)
                super().shutdown_request(request)

            def handle_error(self, *_: Any) -> None:
                logging.getLogger(__name__).debug("a connection broke")

        def of_this_machine(environment: Any, start_response: Any) -> Any:
            CURRENT.set(bmc)
            return application(environment, start_response)

        self._connections = connections
        self._server = OneBmcServer(
            "127.0.0.1", bmc.server.machine.bmc_port, of_this_machine, handler=QuietHandler
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _application(folder: Path, credentials: Credentials) -> Callable[..., Any]:
    """The emulator's WSGI application, with per-machine drivers and this lab's password."""
    try:
        import bcrypt
        from sushy_tools.emulator import memoize
    except ImportError as error:
        raise Unavailable(
            "the lab's BMCs need the sushy-tools emulator",
            why=str(error),
            do="pip install 'l0-infra-os[lab]'",
        ) from error

    class InMemory(dict[Any, Any]):
        """In place of the emulator's SQLite file for each attribute (12 times slower)."""

        def make_permanent(self, *_: Any) -> None:
            """Nothing is kept."""

    memoize.PersistentDict = InMemory
    from sushy_tools.emulator import main

    def of_current(name: str) -> property:
        return property(lambda _self: CURRENT.get().drivers[name])

    for name in ("systems", "managers", "chassis", "indicators", "vmedia", "storage", "drives", "volumes"):
        setattr(main.Application, name, of_current(name))
    # Few bcrypt rounds: every request is checked, and the password is random, not a person's.
    secret = bcrypt.hashpw(credentials.password.encode(), bcrypt.gensalt(4)).decode()
    accounts = folder / "bmc-accounts"
    atomic_write(accounts, f"{credentials.username}:{secret}\n", mode=0o600)
    main.app.configure(extra_config={"SUSHY_EMULATOR_AUTH_FILE": str(accounts)})
    main.app.logger.setLevel(logging.WARNING)
    main.app.before_request(_before)
    main.app.after_request(_complete)
    application: Callable[..., Any] = main.app
    return application


def _drivers_of(server: Server) -> BmcDrivers:
    from sushy_tools.emulator.resources import chassis, drives, indicators, managers, storage, vmedia, volumes

    machine = server.machine
    logger = logging.getLogger("l0_infra_os.lab.emulator")
    name = f"{machine.name} chassis"
    config = {
        "SUSHY_EMULATOR_CHASSIS": [{"Id": machine.serial, "Name": name, "UUID": machine.uuid}],
        "SUSHY_EMULATOR_STORAGE": {
            machine.uuid: [{"Id": "1", "Name": "NVMe", "StorageControllers": [], "Drives": ["disk0"]}]
        },
        "SUSHY_EMULATOR_DRIVES": {
            (machine.uuid, "1"): [
                {"Id": "disk0", "Name": "disk0", "CapacityBytes": machine.disk_bytes, "Protocol": "NVMe"}
            ]
        },
    }
    systems = LabSystems(server)
    static_chassis = chassis.StaticDriver(config, logger)
    return BmcDrivers(
        server,
        {
            "systems": systems,
            "chassis": static_chassis,
            "managers": managers.FakeDriver(config, logger, systems, static_chassis),
            "indicators": indicators.StaticDriver(config, logger),
            "vmedia": vmedia.StaticDriver(config, logger),
            "storage": storage.StaticDriver(config, logger),
            "drives": drives.StaticDriver(config, logger),
            "volumes": volumes.StaticDriver(config, logger),
        },
    )


class LabSystems:
    """The emulator's systems driver over one server of the lab.

    The names are the emulator's (`AbstractSystemsDriver`); what it does not find here it treats as
    not supported, as it does with its own drivers.
    """

    driver = "<lab>"

    def __init__(self, server: Server) -> None:
        self._server = server
        self._machine = server.machine
        self.systems = [server.machine.uuid]

    def __getattr__(self, name: str) -> Any:
        from sushy_tools import error

        def unsupported(*_: Any, **__: Any) -> Any:
            raise error.NotSupportedError(f"this machine has no {name}")

        if name.startswith("_"):
            raise AttributeError(name)
        return unsupported

    def uuid(self, identity: str) -> str:
        """The UUID, from the UUID or the name."""
        from sushy_tools import error

        if identity not in (self._machine.uuid, self._machine.name):
            raise error.NotFound(f"there is no system {identity} here")
        return self._machine.uuid

    def name(self, identity: str) -> str:
        """The machine's name."""
        self.uuid(identity)
        return self._machine.name

    def get_power_state(self, identity: str) -> str:
        """On or Off."""
        self.uuid(identity)
        return self._server.power

    def set_power_state(self, identity: str, state: str) -> None:
        """A reset action."""
        from sushy_tools import error

        self.uuid(identity)
        if state not in RESET_TYPES:
            raise error.BadRequest(f"unknown ResetType {state!r}")
        self._server.reset(state)

    def get_boot_device(self, identity: str) -> str:
        """The boot override's target."""
        self.uuid(identity)
        return self._server.boot.target

    def get_boot_mode(self, identity: str) -> str:
        """UEFI."""
        self.uuid(identity)
        return self._server.boot.mode

    def get_http_boot_uri(self, identity: str) -> str:
        """The URI for UefiHttp."""
        self.uuid(identity)
        return self._server.boot.http_uri

    def get_total_memory(self, identity: str) -> int:
        """In GiB, rounded to a whole number as BMCs do."""
        self.uuid(identity)
        return max(1, round(self._machine.memory_bytes / 2**30))

    def get_total_cpus(self, identity: str) -> int:
        """Sockets: one."""
        self.uuid(identity)
        return 1

    def get_versions(self, identity: str) -> dict[str, str]:
        """Of the firmware."""
        self.uuid(identity)
        return {"BiosVersion": "1.0"}

    def get_processors(self, identity: str) -> list[dict[str, str]]:
        """One socket with all cores."""
        self.uuid(identity)
        cores = str(self._machine.cpu_cores)
        model = self._machine.cpu_model
        row = {"id": "CPU0", "Id": "CPU0", "socket": "CPU 0", "model": model, "vendor": model.split(" ")[0]}
        return [{**row, "cores": cores, "threads": cores}]

    def get_nics(self, identity: str) -> list[dict[str, str]]:
        """Every NIC with its MAC."""
        self.uuid(identity)
        return [{"id": port.nic, "mac": port.mac} for port in self._machine.ports]

    def get_simple_storage_collection(self, identity: str) -> dict[str, Any]:
        """One controller with one disk."""
        self.uuid(identity)
        disk = {"Name": "disk0", "CapacityBytes": self._machine.disk_bytes}
        return {"1": {"Id": "1", "Name": "NVMe", "DeviceList": [disk]}}


def _before() -> Any:
    """Takes boot overrides itself: the emulator knows neither Once nor what UefiHttp reads back as."""
    import flask

    if flask.request.method != "PATCH" or flask.request.endpoint != "system_resource":
        return None
    body = flask.request.get_json(silent=True)
    boot = body.get("Boot") if isinstance(body, dict) else None
    if not isinstance(boot, dict):
        return None
    fault = _fault_in(boot)
    if fault:
        return _redfish_error(fault), 400
    names = {
        "BootSourceOverrideTarget": "target",
        "BootSourceOverrideEnabled": "enabled",
        "BootSourceOverrideMode": "mode",
        "HttpBootUri": "http_uri",
    }
    CURRENT.get().server.set_boot(**{ours: boot[theirs] for theirs, ours in names.items() if theirs in boot})
    return "", 204


def _fault_in(boot: dict[str, Any]) -> str | None:
    allowed = {
        "BootSourceOverrideTarget": BOOT_TARGETS,
        "BootSourceOverrideEnabled": ("Disabled", "Once", "Continuous"),
        "BootSourceOverrideMode": ("UEFI",),
    }
    for name, values in allowed.items():
        if name in boot and boot[name] not in values:
            return f"{name} takes one of {', '.join(values)}, not {boot[name]!r}"
    return None if set(boot) & {*allowed, "HttpBootUri"} else "nothing in Boot that could be set"


def _redfish_error(message: str) -> dict[str, Any]:
    return {"error": {"code": "Base.1.0.GeneralError", "message": message}}


def _complete(response: Any) -> Any:
    """Fills in what the emulator's templates have as fixed texts."""
    import flask

    completions: dict[str, Callable[[dict[str, Any], Server], None]] = {
        "system_resource": _complete_system,
        "chassis_resource": _complete_chassis,
        "manager_resource": _complete_manager,
        "ethernet_interface": _complete_nic,
        "drive_resource": _complete_drive,
    }
    completion = completions.get(flask.request.endpoint or "")
    if completion is None or flask.request.method != "GET" or response.status_code != 200:
        return response
    value = json.loads(response.get_data())
    completion(value, CURRENT.get().server)
    response.set_data(json.dumps(value))
    return response


def _complete_system(value: dict[str, Any], server: Server) -> None:
    machine = server.machine
    value.update(
        Manufacturer=MANUFACTURER, Model=machine.model, SerialNumber=machine.serial, HostName=machine.name
    )
    value["ProcessorSummary"].update(
        Model=machine.cpu_model, CoreCount=machine.cpu_cores, LogicalProcessorCount=machine.cpu_cores
    )
    value["Boot"].update(
        {
            "BootSourceOverrideEnabled": server.boot.enabled,
            "BootSourceOverrideTarget": server.boot.target,
            "BootSourceOverrideTarget@Redfish.AllowableValues": list(BOOT_TARGETS),
        }
    )
    value["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] = list(RESET_TYPES)
    value.pop("Memory", None)  # the emulator links to modules that it does not serve


def _complete_chassis(value: dict[str, Any], server: Server) -> None:
    machine = server.machine
    value.update(
        Manufacturer=MANUFACTURER,
        Model=machine.model,
        SerialNumber=machine.serial,
        PowerState=server.power,
        Location={"Placement": {"Rack": machine.rack, "RackOffset": machine.number}},
    )


def _complete_manager(value: dict[str, Any], _server: Server) -> None:
    value.update(Description="lab BMC", Model="lab-bmc")


def _complete_nic(value: dict[str, Any], server: Server) -> None:
    port = next(port for port in server.machine.ports if port.nic == value["Id"])
    up = server.power == "On" and "link-down" not in server.faults
    value.update(
        Name=f"NIC {port.nic}",
        SpeedMbps=int(port.link_gbps * 1000),
        LinkStatus="LinkUp" if up else "LinkDown",
    )


def _complete_drive(value: dict[str, Any], server: Server) -> None:
    value.update(Manufacturer=MANUFACTURER, Model="lab-disk", SerialNumber=f"{server.machine.serial}-0")
    value.update(MediaType="SSD", RotationSpeedRPM=0)
