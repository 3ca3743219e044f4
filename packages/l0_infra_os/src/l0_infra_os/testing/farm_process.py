"""The process of a farm: `python -m l0_infra_os.testing.farm_process CONFIG PARENT_PID`."""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import logging
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from .farm import PASSWORD, USERNAME

log = logging.getLogger(__name__)

FAULTS = {
    "bmc-dead": "the BMC answers every request with 503",
    "bmc-ignores-boot": "the BMC takes a boot override and does not keep it",
    "precondition": "the BMC refuses a PATCH without an If-Match of its present ETag",
    "silent": "the machine powers on and reports nothing",
    "wrong-digest": "the agent reads other bytes than the image's",
    "unverified-erase": "the agent erases and cannot read back",
    "stays-on": "the machine ignores power off",
}
RETRY_S = 0.2


class Body:
    """The machine behind one BMC: its power, its disk, and the agent that it boots."""

    def __init__(self, row: dict[str, Any], boot_url_file: Path) -> None:
        self.name: str = row["name"]
        self.row = row
        self.boot_url_file = boot_url_file
        self.faults: dict[str, Any] = dict(row["faults"])
        self.disk: dict[str, Any] | None = None
        self.booted = ""
        self.generation = 0
        self.boot_device = "Hdd"
        self.power = "Off"

    def power_changed(self, power: str, boot_device: str) -> None:
        """Called by the BMC: a new power state ends what ran before."""
        self.power, self.boot_device = power, boot_device
        self.generation += 1
        self.booted = ""
        if power == "On" and "silent" not in self.faults:
            threading.Thread(target=self._run, args=(self.generation,), daemon=True).start()

    def reset(self) -> None:
        """As it was delivered: empty disk, no faults."""
        self.faults, self.disk = {}, None

    def state(self) -> dict[str, Any]:
        return {"power": self.power, "disk": self.disk, "booted": self.booted, "faults": self.faults}

    def _run(self, generation: int) -> None:
        try:
            order = {"action": "local"} if self.boot_device == "Hdd" else self._order(generation)
            if self.generation == generation and order:
                getattr(self, f"_{order['action']}")(order)
        except (OSError, ValueError, KeyError):
            log.exception("machine %s", self.name)

    def _order(self, generation: int) -> dict[str, Any]:
        while self.generation == generation:
            try:
                with urllib.request.urlopen(f"{self._url()}.json", timeout=30) as answer:  # noqa: S310
                    order: dict[str, Any] = json.load(answer)
                    return order
            except (OSError, ValueError):
                time.sleep(RETRY_S)
        return {}

    def _url(self) -> str:
        return f"{self.boot_url_file.read_text().strip()}/{self.row['macs'][0]}"

    def _report(self, what: str, body: dict[str, Any]) -> None:
        data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        generation = self.generation
        while generation == self.generation:  # again and again, as an agent does, while it has power
            try:
                request = urllib.request.Request(f"{self._url()}/{what}", data, headers)  # noqa: S310
                urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
                return
            except urllib.error.HTTPError as error:
                log.warning("machine %s: %s %s", self.name, what, error.read().decode())
                return
            except OSError:
                time.sleep(RETRY_S)

    def _inspect(self, order: dict[str, Any]) -> None:
        self.booted = "agent"
        kinds = ("management", "compute", "storage")
        lldp = {"leaf": self.row["leaf"], "rack": self.row["rack"], "port": self.name}
        nics = [
            {"name": kind[:3] + "0", "mac": mac, "link_gbps": 10.0, "segment": kind, "lldp": lldp}
            for kind, mac in zip(kinds, self.row["macs"], strict=True)
        ]
        facts = {
            "token": order["token"],
            "arch": "x86_64",
            "cpu": {"model": "farm", "cores": 2},
            "memory_bytes": 2**32,
            "disks": [{"name": "vda", "size_bytes": 2**33}],
            "nics": nics,
        }
        self._report("facts", facts)

    def _deploy(self, order: dict[str, Any]) -> None:
        self.booted = "agent"
        digest, size = self._download(order["image"])
        if "wrong-digest" in self.faults:
            digest.update(b"!")
        if digest.hexdigest() != order["image"]["sha256"]:
            body = {"token": order["token"], "reason": "digest", "detail": f"read {digest.hexdigest()}"}
            self._report("failed", body)
            return
        self.disk = order
        self._report("deployed", {"token": order["token"], "sha256": digest.hexdigest(), "bytes": size})

    def _download(self, image: dict[str, Any]) -> tuple[Any, int]:
        """The digest and size of what arrives; a service that dies in between is asked again."""
        generation = self.generation
        while True:
            digest, size = hashlib.sha256(), 0
            url = f"{self._url().rpartition('/boot/')[0]}/images/{image['url'].rpartition('/')[2]}"
            with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=60) as stream:  # noqa: S310
                while piece := stream.read(1 << 20):
                    digest.update(piece)
                    size += len(piece)
            if size == image["size"] or generation != self.generation:
                return digest, size
            time.sleep(RETRY_S)

    def _erase(self, order: dict[str, Any]) -> None:
        self.booted = "agent"
        self.disk = None
        verified = "unverified-erase" not in self.faults
        body = {"token": order["token"], "method": "overwrite", "bytes": 2**33, "verified": verified}
        self._report("erased", body)

    def _local(self, _order: dict[str, Any]) -> None:
        if self.disk is None:
            return
        self.booted = "system"
        addresses = {kind: row["address"].partition("/")[0] for kind, row in self.disk["addresses"].items()}
        body = {"token": self.disk["token"], "hostname": self.disk["hostname"], "addresses": addresses}
        self._report("checkin", {**body, "host_key": f"ssh-ed25519 AAAA{self.name}"})


class Gate:
    """The WSGI application of one BMC: one system out of the emulator's many, faults, counters."""

    def __init__(self, app: Any, body: Body, counts: collections.Counter[str]) -> None:
        self.app, self.body, self.counts = app, body, counts

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        path, method = environ["PATH_INFO"].rstrip("/"), environ["REQUEST_METHOD"]
        if path.startswith("/farm/"):
            return self._farm(path, environ, start_response)
        self.counts[method] += 1
        if "bmc-dead" in self.body.faults:
            return _answer(start_response, "503 Service Unavailable", {"error": {"message": "dead"}})
        if method == "PATCH" and (refusal := self._precondition(environ)):
            return _answer(start_response, "412 Precondition Failed", refusal)
        if path == "/redfish/v1/Systems":
            members = [{"@odata.id": f"/redfish/v1/Systems/{self.body.row['uuid']}"}]
            body = {
                "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection",
                "@odata.id": path,
                "Name": "Systems",
                "Members": members,
                "Members@odata.count": 1,
            }
            return _answer(start_response, "200 OK", body)
        return self.app(environ, start_response)

    def _precondition(self, environ: dict[str, Any]) -> dict[str, Any] | None:
        if "precondition" not in self.body.faults:
            return None
        self.body.faults["precondition"] -= 1
        if not self.body.faults["precondition"]:
            del self.body.faults["precondition"]
        return {"error": {"message": "PreconditionFailed", "if-match": environ.get("HTTP_IF_MATCH")}}

    def _farm(self, path: str, environ: dict[str, Any], start_response: Any) -> Any:
        if path == "/farm/faults":
            size = int(environ.get("CONTENT_LENGTH") or 0)
            for fault, value in json.loads(environ["wsgi.input"].read(size)).items():
                self.body.faults[fault] = value
                if value is None:
                    del self.body.faults[fault]
            return _answer(start_response, "200 OK", self.body.faults)
        if path == "/farm/reset":
            self.body.reset()
            self.driver().set_boot_device(self.body.row["uuid"], "Hdd")
            self.driver()._update(self.body.row["uuid"], power_state="Off", pending_power=None)
            return _answer(start_response, "200 OK", {})
        return _answer(
            start_response, "200 OK", dict(self.counts) if path == "/farm/requests" else self.body.state()
        )

    def driver(self) -> Any:
        """The emulator's driver, which keeps power and boot device."""
        return self.app.systems


def _answer(start_response: Any, status: str, body: dict[str, Any]) -> list[bytes]:
    data = json.dumps(body).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
    return [data]


def _emulator(config: dict[str, Any], bodies: dict[str, Body]) -> Any:
    """sushy-tools' application with its state in memory, telling bodies of power changes."""
    import bcrypt
    from sushy_tools.emulator import main, memoize
    from sushy_tools.emulator.resources.systems import fakedriver

    class Memory(dict):  # type: ignore[type-arg]
        def make_permanent(self, *_: object) -> None:
            """The state of an emulator in a test ends with it."""

    memoize.PersistentDict = Memory

    class Driver(fakedriver.FakeDriver):  # type: ignore[misc]
        def set_power_state(self, identity: str, state: str) -> None:
            body = bodies[self._get(identity)["uuid"]]
            if "Off" in state and "stays-on" in body.faults:
                return
            power = "Off" if state in ("ForceOff", "GracefulShutdown") else "On"
            if config["power_delay_s"]:
                system = self._get(identity)
                due = time.time() + config["power_delay_s"]
                self._update(system, pending_power={"power_state": power, "apply_time": due})
                threading.Timer(config["power_delay_s"], self._get, (identity,)).start()
            elif self._get(identity)["power_state"] != power or "Restart" in state:
                self._update(identity, power_state=power)

        def _update(self, system: Any, **changes: Any) -> None:
            super()._update(system, **changes)
            row = self._systems[system if isinstance(system, str) else system["uuid"]]
            if changes.get("power_state"):
                bodies[row["uuid"]].power_changed(row["power_state"], row.get("boot_device", "Hdd"))

        def set_boot_device(self, identity: str, boot_source: str) -> None:
            if "bmc-ignores-boot" not in bodies[self._get(identity)["uuid"]].faults:
                super().set_boot_device(identity, boot_source)

    fakedriver.FakeDriver = Driver
    auth_file = Path(config["folder"]) / "htpasswd"
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    auth_file.write_text(f"{USERNAME}:{hashed}\n")
    systems = [
        {
            "uuid": row["uuid"],
            "name": row["name"],
            "power_state": "Off",
            "nics": [{"mac": mac, "ip": ""} for mac in row["macs"]],
        }
        for row in config["machines"]
    ]
    extra = {"SUSHY_EMULATOR_FAKE_DRIVER": True, "SUSHY_EMULATOR_FAKE_SYSTEMS": systems}
    main.app.configure(extra_config={**extra, "SUSHY_EMULATOR_AUTH_FILE": str(auth_file)})
    return main.app


def main() -> None:
    """Serves until the parent process is gone."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    config = json.loads(Path(sys.argv[1]).read_text())
    bodies = {row["uuid"]: Body(row, Path(config["boot_url_file"])) for row in config["machines"]}
    app = _emulator(config, bodies)
    counts: collections.Counter[str] = collections.Counter()

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_request(self, *_: object, **__: object) -> None:
            """Thousands of requests a second are not worth a line each."""

    for row in config["machines"]:
        gate = Gate(app, bodies[row["uuid"]], counts)
        server = make_server("127.0.0.1", row["port"], gate, threaded=True, request_handler=Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    parent = int(sys.argv[2])
    while os.getppid() == parent:
        time.sleep(0.5)


if __name__ == "__main__":
    main()
