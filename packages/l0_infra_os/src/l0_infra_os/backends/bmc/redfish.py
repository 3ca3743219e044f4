"""A `Bmc` over Redfish.  One sushy session per BMC, kept open and used again.

Retries are the reconciler's: a request that fails is told at once, so that one dead BMC never
holds a worker.  Nothing here waits for a machine; power changes are observed, not assumed.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from l0_infra_os._kit.problems import BadInput, Failed, Problem, Unauthorized, Unavailable
from l0_infra_os.ports import BmcNic, BootOverride, Credentials, PowerAction, PowerState, SystemInventory

from .quirks import Quirks, quirks_of

T = TypeVar("T")

POWER: dict[str, PowerState] = {
    "On": "on",
    "Off": "off",
    "PoweringOn": "changing",
    "PoweringOff": "changing",
}
RESETS: dict[PowerAction, tuple[str, ...]] = {
    "on": ("On", "ForceOn"),
    "off": ("ForceOff",),
    "cycle": ("ForceRestart", "PowerCycle"),
}
#: sushy tells of every failed request in its own log; the problem that we raise says it once.
logging.getLogger("sushy").setLevel(logging.CRITICAL)


class RedfishConnector:
    """Keeps one signed-in session for each address."""

    def __init__(self, *, timeout_s: float = 30.0, verify_tls: bool = False) -> None:
        self.timeout_s = timeout_s
        self.verify_tls = verify_tls
        self._open: dict[str, RedfishBmc] = {}
        self._lock = threading.Lock()

    def connect(self, address: str, credentials: Credentials) -> RedfishBmc:
        """The BMC at `address`; the session of the last call when the credentials are the same."""
        with self._lock:
            bmc = self._open.get(address)
        if bmc is not None and bmc.credentials == credentials:
            return bmc
        bmc = RedfishBmc(address, credentials, timeout_s=self.timeout_s, verify_tls=self.verify_tls)
        with self._lock:
            old = self._open.get(address)
            self._open[address] = bmc
        if old is not None:
            old.close()
        return bmc

    def close(self) -> None:
        """Ends every session."""
        with self._lock:
            bmcs, self._open = list(self._open.values()), {}
        for bmc in bmcs:
            bmc.close()


class RedfishBmc:
    """The one computer system behind a Redfish service."""

    def __init__(
        self, address: str, credentials: Credentials, *, timeout_s: float = 30.0, verify_tls: bool = False
    ) -> None:
        self.address = address
        self.credentials = credentials
        self.timeout_s = timeout_s
        self.verify_tls = verify_tls
        self._lock = threading.Lock()  # requests of one BMC go one after another: many lose parallel ones
        self._root: Any = None
        self._system: Any = None
        self._fresh = False

    def inventory(self) -> SystemInventory:
        return self._do("read the inventory", self._inventory)

    def power(self) -> PowerState:
        def read() -> PowerState:
            self._refresh()
            return self._power()

        return self._do("read the power state", read)

    def set_power(self, action: PowerAction) -> None:
        def reset() -> None:
            allowed = {value.value for value in self._system.get_allowed_reset_system_values()}
            for name in RESETS[action]:
                if name in allowed:
                    self._system.reset_system(_sushy().ResetType(name))
                    return
            raise Failed(
                f"BMC {self.address} knows no reset for {action!r}", why=f"it has: {sorted(allowed)}"
            )

        self._do(f"power {action}", reset)

    def set_boot(self, override: BootOverride) -> PowerState:
        return self._do(f"set the boot to {override.target}", lambda: self._set_boot(override))

    def close(self) -> None:
        with self._lock, contextlib.suppress(Exception):
            if self._root is not None:
                self._root._auth.close()
                self._root._conn.close()
        self._root = self._system = None

    # ------------------------------------------------------------------ inside the session

    def _do(self, what: str, work: Callable[[], T]) -> T:
        with self._lock, told(self.address, what):
            if self._system is None:
                self._sign_in()
            try:
                return work()
            except Problem:
                raise
            except _sushy().exceptions.ResourceNotFoundError:
                self._root = self._system = None  # the BMC was reset: its resources have new names
                self._sign_in()
                return work()

    def _sign_in(self) -> None:
        sushy = _sushy()
        url = service_url(self.address, min(self.timeout_s, 5.0))
        connector = sushy.connector.Connector(
            url,
            verify=self.verify_tls,
            server_side_retries=1,
            default_request_timeout=self.timeout_s,
            connect_timeout=min(self.timeout_s, 5.0),
        )
        connector._session.headers["Connection"] = "keep-alive"  # sushy's own default is one call each
        root = sushy.Sushy(
            url,
            auth=sushy.auth.SessionOrBasicAuth(self.credentials.username, self.credentials.password),
            connector=connector,
        )
        members = root.get_system_collection().members_identities
        if len(members) != 1:
            raise Failed(
                f"BMC {self.address} has {len(members)} systems", why="exactly one is supported for each BMC"
            )
        self._root, self._system, self._fresh = root, root.get_system(members[0]), True

    def _refresh(self) -> None:
        if self._fresh:
            self._fresh = False  # the sign-in has just read it
        else:
            self._system.refresh(force=True)

    def _power(self) -> PowerState:
        value = self._system.power_state
        return POWER.get(str(value.value), "unknown") if value is not None else "unknown"

    @property
    def _quirks(self) -> Quirks:
        return quirks_of(self._system.manufacturer)

    def _inventory(self) -> SystemInventory:
        self._refresh()
        system = self._system
        body: dict[str, Any] = system.json
        processors = body.get("ProcessorSummary") or {}
        memory_gib = (body.get("MemorySummary") or {}).get("TotalSystemMemoryGiB") or 0
        return SystemInventory(
            uuid=str(system.uuid or system.identity).lower(),
            serial=(system.serial_number or "").strip() or str(system.uuid or system.identity).lower(),
            name=(system.asset_tag or "").strip() or (system.name or "").strip(),
            manufacturer=system.manufacturer or "",
            model=system.model or "",
            cpu_count=int(processors.get("Count") or 0),
            cpu_model=str(processors.get("Model") or ""),
            memory_bytes=int(float(memory_gib) * 2**30),
            nics=tuple(self._nics()),
            power=self._power(),
        )

    def _nics(self) -> Iterator[BmcNic]:
        if "EthernetInterfaces" not in self._system.json:
            return
        for nic in self._system.ethernet_interfaces.get_members():
            mac = nic.permanent_mac_address or nic.mac_address
            if mac:
                speed = nic.speed_mbps
                yield BmcNic(mac.lower(), nic.name or nic.identity, speed / 1000 if speed else None)

    def _set_boot(self, override: BootOverride) -> PowerState:
        sushy = _sushy()
        quirks = self._quirks
        target = "Pxe" if override.target == "network" else quirks.disk_target
        enabled = "Once" if override.duration == "once" else "Continuous"
        self._fresh = False
        body: dict[str, Any] = {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}
        if quirks.send_mode:
            body["BootSourceOverrideMode"] = "UEFI"
        try:
            self._patch({"Boot": body})
        except sushy.exceptions.HTTPError as error:
            if error.status_code not in (400, 412, 428):
                raise
            self._system.refresh(force=True)  # the ETag that the BMC insists on may have moved
            self._patch({"Boot": body})
        self._system.refresh(force=True)
        seen = self._system.json.get("Boot") or {}
        kept = seen.get("BootSourceOverrideTarget") == target and (
            not quirks.duration_reads_back or seen.get("BootSourceOverrideEnabled") == enabled
        )
        if not kept:
            raise Failed(
                f"BMC {self.address} did not keep the boot override",
                why=f"asked for {target} {enabled}, it reads back "
                f"{seen.get('BootSourceOverrideTarget')} {seen.get('BootSourceOverrideEnabled')}",
            )
        return self._power()

    def _patch(self, body: dict[str, Any]) -> None:
        self._root._conn.patch(self._system.path, data=body, etag=self._system._get_etag())


def _sushy() -> Any:
    import sushy
    import sushy.auth
    import sushy.connector
    import sushy.exceptions

    return sushy


@contextlib.contextmanager
def told(address: str, what: str) -> Iterator[None]:
    """sushy's errors as problems that say which BMC, what it was asked and what to do."""
    exceptions = _sushy().exceptions
    try:
        yield
    except exceptions.AccessError as error:
        raise Unauthorized(
            f"BMC {address} refuses this user name or password",
            why=f"HTTP {error.status_code} on {what}",
            do="check --username and the password file",
        ) from error
    except exceptions.ConnectionError as error:
        raise Unavailable(
            f"BMC {address} does not answer", why=_reason(error), do="check the address and the cable"
        ) from error
    except exceptions.HTTPError as error:
        raise Failed(f"BMC {address} failed to {what}", why=f"HTTP {error.status_code}: {error}") from error
    except exceptions.SushyError as error:
        raise Failed(f"BMC {address} failed to {what}", why=str(error)) from error
    except OSError as error:
        raise Unavailable(
            f"BMC {address} does not answer", why=_reason(error), do="check the address and the cable"
        ) from error


def _reason(error: BaseException) -> str:
    text = str(error)
    for sign in ("Connection refused", "timed out", "No route to host", "Name or service not known"):
        if sign.lower() in text.lower():
            return sign.lower()
    return text.splitlines()[0][:200] if text else type(error).__name__


def split_address(address: str) -> tuple[str, str, int]:
    """(scheme or "", host, port) of `[https://]host[:port]`."""
    scheme, mark, rest = address.rpartition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or (host.count(":") and not host.endswith("]")):
        host, port = rest, ""
    if port and not port.isdigit():
        raise BadInput(f"{address!r} is no address", field="addresses", do="write host or host:port")
    return scheme if mark else "", host.strip("[]"), int(port) if port else (80 if scheme == "http" else 443)


def service_url(address: str, timeout_s: float) -> str:
    """The URL of the Redfish service.

    Without a scheme it is https: a password never leaves the machine in clear because nobody
    said otherwise.  Only on loopback does a service without TLS get http.
    """
    scheme, host, port = split_address(address)
    literal = f"[{host}]" if ":" in host else host
    if not scheme:
        scheme = "http" if _is_loopback(host) and not _speaks_tls(host, port, timeout_s) else "https"
    return f"{scheme}://{literal}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        try:
            with context.wrap_socket(connection):
                return True
        except OSError:
            return False


def answers(address: str, timeout_s: float) -> bool:
    """Whether anything listens at an address: the quick first look of a discovery."""
    _scheme, host, port = split_address(address)
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False
