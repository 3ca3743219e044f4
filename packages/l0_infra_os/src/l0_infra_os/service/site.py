"""What all use cases share: the store, the devices' ports, a clock and the settings."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from l0_infra_os._kit.files import atomic_write, locked
from l0_infra_os._kit.problems import BadInput
from l0_infra_os.core.isolation import AddressPlan
from l0_infra_os.ports import Bmc, BmcConnector, Boot, Fabric, ImageStore
from l0_infra_os.settings import Settings
from l0_infra_os.store.repository import Store

from .credentials import CredentialStore


@dataclass
class Site:
    """The parts of one site.  Ports that are not given are opened when first used."""

    settings: Settings
    store: Store
    connector: BmcConnector
    clock: Callable[[], float] = time.time
    random: random.Random = field(default_factory=random.SystemRandom)
    given_fabric: Fabric | None = None
    given_images: ImageStore | None = None
    given_boot: Boot | None = None
    boot_url: str | None = None
    wake: threading.Event = field(default_factory=threading.Event)
    """Set when something may be due at once: the reconciler waits on it."""

    @cached_property
    def fabric(self) -> Fabric:
        """The switches."""
        return self.given_fabric or cast(
            "Fabric", _backend("fabric", self.settings.fabric)(self.settings.lab_folder)
        )

    @cached_property
    def images(self) -> ImageStore:
        """The images."""
        return self.given_images or cast(
            "ImageStore", _backend("images", self.settings.images)(self.settings.images_folder)
        )

    @cached_property
    def boot(self) -> Boot:
        """Network boot."""
        return self.given_boot or cast("Boot", _backend("boot", self.settings.boot)(self.settings.lab_folder))

    @cached_property
    def credentials(self) -> CredentialStore:
        """BMC passwords."""
        return CredentialStore(self.settings.credentials_file)

    @cached_property
    def boot_key(self) -> bytes:
        """The secret from which one-boot tokens are derived, made on first use."""
        path = self.settings.state_dir / "boot.key"
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                atomic_write(path, secrets.token_hex(32), mode=0o600)
            return path.read_bytes()

    @cached_property
    def addresses(self) -> AddressPlan:
        """The site's address plan; the management network is the fabric's."""
        settings = self.settings
        return AddressPlan(self.fabric.management.network, settings.compute_network, settings.storage_network)

    def bmc(self, address: str) -> Bmc:
        """The BMC at an address, signed in with the stored credentials."""
        return self.connector.connect(address, self.credentials.get(address))

    def close(self) -> None:
        """Ends sessions and connections."""
        self.connector.close()
        self.store.close()


def open_site(settings: Settings, *, clock: Callable[[], float] = time.time, **parts: Any) -> Site:
    """The site of these settings; its database is brought to the newest tables."""
    from l0_infra_os._kit.database import open_database
    from l0_infra_os.backends.bmc.redfish import RedfishConnector
    from l0_infra_os.store.tables import PREFIX

    engine = open_database(settings.database, package="l0_infra_os", prefix=PREFIX)
    connector = parts.pop("connector", None) or RedfishConnector(
        timeout_s=settings.bmc_timeout_s, verify_tls=settings.bmc_verify_tls
    )
    return Site(settings, Store(engine, clock), connector, clock, **parts)


def _backend(kind: str, name: str) -> Callable[[Path], Any]:
    """The factory of a backend: ours, or an entry point `l0_infra_os.KIND` of another package."""
    if name == "lab":
        if kind == "fabric":
            from l0_infra_os.backends.fabric import open_fabric

            return open_fabric
        from l0_infra_os.backends.boot import open_boot

        return open_boot
    if (kind, name) == ("images", "folder"):
        from l0_infra_os.backends.images import FolderImages

        return FolderImages
    for entry in entry_points(group=f"l0_infra_os.{kind}", name=name):
        factory: Callable[[Path], Any] = entry.load()
        return factory
    raise BadInput(
        f"there is no {kind} backend {name!r}",
        field=kind,
        do=f"install a package with an entry point {name!r} in group l0_infra_os.{kind}",
    )
