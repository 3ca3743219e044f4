"""A `Bmc` over Redfish.  One sushy session per BMC, kept open and used again.

Retries are the reconciler's: a request that fails is told at once, so that one dead BMC never
holds a worker.  Nothing here waits for a machine; power changes are observed, not assumed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from l0_infra_os._kit.problems import Failed, Unauthorized, Unavailable
from l0_infra_os.ports import BmcNic, BootOverride, Credentials, PowerAction, PowerState, SystemInventory

from .address import service_url
from .quirks import quirks_of

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
PRECONDITIONS = frozenset({400, 412, 428})
"""How BMCs say that a PATCH lacks the right If-Match (AMI answers 400: gofish#171)."""
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
    """The one computer system behind a Redfish service.

    sushy signs in, keeps the session and knows the services' ways of failing; the System resource
    is read as it is, because sushy's own reading of it reads all its children each time.
    """

    def __init__(
        self, address: str, credentials: Credentials, *, timeout_s: float = 30.0, verify_tls: bool = False
    ) -> None:
        self.address = address
        self.credentials = credentials
        self.timeout_s = timeout_s
        self.verify_tls = verify_tls
        self._lock = threading.Lock()  # requests of one BMC go one after another: many lose parallel ones
        self._root: Any = None
        self._path = ""
        self._system: dict[str, Any] = {}
        self._etag: str | None = None

    def inventory(self) -> SystemInventory:
        return self._do("read the inventory", self._inventory)

    def power(self) -> PowerState:
        def read() -> PowerState:
            self._read()
            return self._power()

        return self._do("read the power state", read)

    def set_power(self, action: PowerAction) -> None:
        self._do(f"power {action}", lambda: self._reset(action))

    def set_boot(self, override: BootOverride) -> PowerState:
        return self._do(f"set the boot to {override.target}", lambda: self._set_boot(override))

    def close(self) -> None:
        with self._lock:
            self._sign_out()

    # ------------------------------------------------------------------ inside the session

    def _do(self, what: str, work: Callable[[], T]) -> T:
        with self._lock, told(self.address, what):
            if self._root is None:
                self._sign_in()
            try:
                return work()
            except _sushy().exceptions.ResourceNotFoundError:
                self._sign_out()  # the BMC was reset: its resources have new names
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
        self._root, self._path = root, members[0]
        self._read()

    def _sign_out(self) -> None:
        root, self._root = self._root, None
        if root is not None:
            with contextlib.suppress(Exception):  # a session that cannot be ended ends by itself
                root._auth.close()
            root._conn.close()

    def _read(self) -> None:
        answer = self._root._conn.get(self._path)
        self._system, self._etag = answer.json(), answer.headers.get("ETag")

    def _power(self) -> PowerState:
        return POWER.get(self._system.get("PowerState") or "", "unknown")

    def _reset(self, action: PowerAction) -> None:
        reset = (self._system.get("Actions") or {}).get("#ComputerSystem.Reset") or {}
        allowed = reset.get("ResetType@Redfish.AllowableValues") or list(RESETS[action])
        name = next((name for name in RESETS[action] if name in allowed), None)
        if name is None or "target" not in reset:
            raise Failed(f"BMC {self.address} knows no reset for {action!r}", why=f"it has: {allowed}")
        self._root._conn.post(reset["target"], data={"ResetType": name})

    def _inventory(self) -> SystemInventory:
        self._read()
        system = self._system
        processors = system.get("ProcessorSummary") or {}
        memory_gib = (system.get("MemorySummary") or {}).get("TotalSystemMemoryGiB") or 0
        identity = str(system.get("UUID") or system.get("Id")).lower()
        return SystemInventory(
            uuid=identity,
            serial=(system.get("SerialNumber") or "").strip() or identity,
            name=(system.get("AssetTag") or "").strip() or (system.get("Name") or "").strip(),
            manufacturer=system.get("Manufacturer") or "",
            model=system.get("Model") or "",
            cpu_count=int(processors.get("Count") or 0),
            cpu_model=str(processors.get("Model") or ""),
            memory_bytes=int(float(memory_gib) * 2**30),
            nics=tuple(self._nics()),
            power=self._power(),
        )

    def _nics(self) -> Iterator[BmcNic]:
        path = (self._system.get("EthernetInterfaces") or {}).get("@odata.id")
        if path is None:
            return
        conn = self._root._conn
        for member in conn.get(path).json().get("Members") or []:
            nic = conn.get(member["@odata.id"]).json()
            mac = nic.get("PermanentMACAddress") or nic.get("MACAddress")
            if mac:
                speed = nic.get("SpeedMbps")
                yield BmcNic(mac.lower(), nic.get("Name") or "", speed / 1000 if speed else None)

    def _set_boot(self, override: BootOverride) -> PowerState:
        quirks = quirks_of(self._system.get("Manufacturer"))
        target = "Pxe" if override.target == "network" else quirks.disk_target
        enabled = "Once" if override.duration == "once" else "Continuous"
        body: dict[str, Any] = {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}
        if quirks.send_mode:
            body["BootSourceOverrideMode"] = "UEFI"
        try:
            self._patch({"Boot": body})
        except _sushy().exceptions.HTTPError as error:
            if error.status_code not in PRECONDITIONS:
                raise
            self._read()  # the ETag that the BMC insists on has moved since we read it
            self._patch({"Boot": body})
        self._read()
        seen = self._system.get("Boot") or {}
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
        self._root._conn.patch(self._path, data=body, etag=self._etag)


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
            do=f"give the right ones: infra-os enroll {address} --username … --password-file …",
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
