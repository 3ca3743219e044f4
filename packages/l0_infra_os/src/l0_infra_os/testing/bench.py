"""A bench for tests of machines: the smallest provisioning service, and a plain Redfish client."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from l0_infra_os.backends.boot import open_boot, personality, shell_order
from l0_infra_os.lab import Lab
from l0_infra_os.lab.plan import Machine
from l0_infra_os.ports import BootHost


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A power cut drops connections: that is no error here."""


class Orders:
    """Serves orders and images to a lab's machines, and remembers what they report."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.orders: dict[str, dict[str, Any]] = {}
        self.images: dict[str, Path] = {}
        self.reports: list[tuple[str, str, dict[str, Any]]] = []
        self._changed = threading.Condition()
        self._boot = open_boot(lab.folder.path)
        self._server = _Server((lab.controller, 0), self._handler())
        self.url = f"http://{lab.controller}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        machines = lab.plan.machines
        hosts = [BootHost(m.management.mac, f"{self.address(m)}/24", m.name) for m in machines]
        self._boot.reserve(hosts, boot_url=f"{self.url}/boot")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def address(self, machine: Machine, network: str = "management") -> str:
        base = {
            "management": self.lab.controller.rsplit(".", 1)[0],
            "compute": "10.72.9",
            "storage": "10.73.9",
        }
        return f"{base[network]}.{10 + machine.number}"

    def give(self, machine: Machine, action: str, **members: Any) -> None:
        self.orders[machine.management.mac] = {"action": action, "token": f"token-{machine.name}", **members}

    def give_deploy(
        self, machine: Machine, image: Path, keys: list[str], *, sha256: str = "", tenant: str = "red"
    ) -> None:
        found = hashlib.sha256(image.read_bytes()).hexdigest()
        self.images[found] = image
        gateway = {"gateway": self.lab.controller}
        self.give(
            machine,
            "deploy",
            image={
                "url": f"{self.url}/images/{found}",
                "sha256": sha256 or found,
                "format": "".join(image.suffixes[-2:]).lstrip("."),
                "size": image.stat().st_size,
            },
            hostname=f"node-{machine.name}",
            ssh_keys=keys,
            storage=tenant,
            addresses={
                port.segment: {
                    "mac": port.mac,
                    "address": f"{self.address(machine, port.segment)}/24",
                    **(gateway if port.segment == "management" else {}),
                }
                for port in machine.ports
            },
            checkin_url=f"{self.url}/boot/{machine.management.mac}/checkin",
        )

    def wait(self, event: str, *machines: Machine, patience_s: float = 60.0) -> list[dict[str, Any]]:
        """The last report of that event from each machine, once all have reported."""

        def found() -> dict[str, dict[str, Any]]:
            return {mac: body for mac, name, body in self.reports if name == event}

        macs = [machine.management.mac for machine in machines]
        with self._changed:
            arrived = self._changed.wait_for(lambda: set(macs) <= set(found()), patience_s)
            assert arrived, f"no {event} from all; reports: {[(mac, name) for mac, name, _ in self.reports]}"
            answers = [found()[mac] for mac in macs]
            self.reports = [row for row in self.reports if row[1] != event or row[0] not in macs]
        return answers

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        bench = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                """Quiet."""

            def do_GET(self) -> None:
                data = bench._page(urllib.parse.unquote(self.path))
                self.send_response(200 if data is not None else 404)
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                self.wfile.write(data or b"")

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                _, _, mac, event = urllib.parse.unquote(self.path).split("/")
                with bench._changed:
                    bench.reports.append((mac, event, body))
                    bench._changed.notify_all()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

        return Handler

    def _page(self, path: str) -> bytes | None:
        kind, _, rest = path.lstrip("/").partition("/")
        if kind == "images":
            return self.images[rest].read_bytes()
        if rest.startswith("files/"):
            return self._boot.file(rest.removeprefix("files/")).read_bytes()
        mac, _, name = rest.partition("/")
        mac, _, suffix = mac.partition(".")
        order = self.orders.get(mac)
        if order is None:
            return None
        renderings: dict[str, Callable[[], bytes]] = {
            "json": lambda: json.dumps(order).encode(),
            "sh": lambda: shell_order(order).encode(),
            "config.tar": lambda: personality(order),
        }
        if name or suffix:
            return renderings[name or suffix]()
        url = f"{self.url}/boot/{mac}.sh"
        return self._boot.script(order_url=url, local=order["action"] == "local").encode()


class Redfish:
    """The few Redfish requests of a test, made by an ordinary HTTP client."""

    def __init__(self, lab: Lab, *, password: str | None = None) -> None:
        self.lab = lab
        self.client = httpx.Client(auth=(lab.username, password or lab.password), timeout=20)

    def url(self, machine: Machine, path: str = "") -> str:
        return f"http://127.0.0.1:{machine.bmc_port}/redfish/v1/Systems/{machine.uuid}{path}"

    def system(self, machine: Machine) -> dict[str, Any]:
        value: dict[str, Any] = self.client.get(self.url(machine)).raise_for_status().json()
        return value

    def boot(self, machine: Machine, target: str, enabled: str = "Once") -> httpx.Response:
        override = {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}
        return self.client.patch(self.url(machine), json={"Boot": override})

    def reset(self, machine: Machine, kind: str) -> None:
        url = self.url(machine, "/Actions/ComputerSystem.Reset")
        self.client.post(url, json={"ResetType": kind}).raise_for_status()

    def power_on(self, machine: Machine, target: str) -> None:
        self.boot(machine, target).raise_for_status()
        self.reset(machine, "On")

    def wait_for(self, machine: Machine, state: str, patience_s: float = 30.0) -> None:
        deadline = time.monotonic() + patience_s
        while self.system(machine)["PowerState"] != state:
            assert time.monotonic() < deadline, f"{machine.name} is not {state}"
            time.sleep(0.05)
