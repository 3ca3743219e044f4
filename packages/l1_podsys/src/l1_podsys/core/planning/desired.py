"""From a profile and one host of the inventory to the resources that the host shall have, per role.

Pure: what lies in files (secrets, wheels, the bundle's index) comes in as `Sources`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from l1_podsys._kit.problems import BadInput
from l1_podsys.core.inventory import Host, Inventory
from l1_podsys.core.tuning import preset_settings

from .profile import Profile, PythonService, User
from .resources import Account, Deb, File, Link, Package, Resource, Setting, Unit, Wheel
from .systemd import drop_in, environment_file, service_unit

TIMESYNCD = "/etc/systemd/timesyncd.conf.d/podsys.conf"
CHRONY = "/etc/chrony/sources.d/podsys.sources"

Placed = tuple[str, Resource]
"""A role and one resource that the role sets."""


@dataclass(frozen=True)
class Sources:
    """What a profile names and the controller has: read once, handed to the pure part.

    `key` makes the digests of secret files useless to whoever reads a plan.
    """

    key: bytes = b""
    secrets: Mapping[tuple[str, str], str] = field(default_factory=dict)
    wheels: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """wheel as the profile names it: (file name, SHA-256)"""
    closures: Mapping[str, list[Deb]] = field(default_factory=dict)
    """package: it and all that it needs, from the bundle"""
    bundle: str | None = None


@dataclass(frozen=True)
class Desired:
    """One host's resources, and the contents that never enter a plan, by digest."""

    placed: list[Placed]
    private: dict[str, bytes]


def desired_state(inventory: Inventory, profile: Profile, host: Host, sources: Sources) -> Desired:
    """What one host shall have.  Order of roles: as they are applied."""
    private: dict[str, bytes] = {}
    placed: list[Placed] = []
    for role, build in ROLES.items():
        placed += [(role, resource) for resource in build(inventory, profile, host, sources, private)]
    return Desired(placed, private)


def questions_for(desired: Desired, sources: Sources, *, shared_path: str | None) -> dict[str, Any]:
    """The probe's request for one host."""
    request: dict[str, Any] = {"key": sources.key.hex(), "mounts": [shared_path] if shared_path else []}
    for _, resource in desired.placed:
        resource.ask(request)
    return request


def _os_settings(
    _inventory: Inventory, profile: Profile, _host: Host, _sources: Sources, _private: dict[str, bytes]
) -> Iterator[Resource]:
    if profile.os is None:
        return
    settings = preset_settings(profile.os.tuning) | {
        name.replace("/", "."): " ".join(value.split()) for name, value in profile.os.sysctl.items()
    }
    if settings:
        lines = "".join(f"{name} = {settings[name]}\n" for name in sorted(settings))
        yield File.of("/etc/sysctl.d/90-podsys.conf", lines)
    if profile.os.limits:
        rows = (f"{limit.domain} {limit.type} {limit.item} {limit.value}\n" for limit in profile.os.limits)
        yield File.of("/etc/security/limits.d/90-podsys.conf", "".join(rows))
    for name in sorted(settings):
        yield Setting(name=name, value=settings[name])


def _hosts_file(
    inventory: Inventory, profile: Profile, _host: Host, _sources: Sources, _private: dict[str, bytes]
) -> Iterator[Resource]:
    if profile.hosts_file is None:
        return
    domain = profile.hosts_file.domain.strip(".")
    lines = []
    for host in inventory.hosts:
        names = [f"{host.hostname}.{domain}"] if domain else []
        lines.append(" ".join([host.address, *names, host.hostname]))
        lines += [
            f"{address} {host.hostname}-{segment}"
            for segment, address in sorted(host.addresses.items())
            if address != host.address
        ]
    yield File.of("/etc/hosts", "\n".join(lines) + "\n", block=True)


def _users(
    _inventory: Inventory, profile: Profile, _host: Host, _sources: Sources, _private: dict[str, bytes]
) -> Iterator[Resource]:
    for user in profile.users:
        home = f"/home/{user.name}"
        yield Account(name=user.name, uid=user.uid, groups=user.groups, shell=user.shell, home=home)
        yield from _user_files(user, home)


def _user_files(user: User, home: str) -> Iterator[Resource]:
    if user.keys:
        rights = {"owner": user.name, "group": user.name, "mode": "0600", "parents_mode": "0700"}
        yield File.of(f"{home}/.ssh/authorized_keys", "".join(f"{key}\n" for key in user.keys), **rights)
    if user.sudo:
        line = f"{user.name} ALL=(ALL:ALL) NOPASSWD: ALL\n"
        yield File.of(f"/etc/sudoers.d/podsys-{user.name.replace('.', '_')}", line, mode="0440")


def _time(
    _inventory: Inventory, profile: Profile, _host: Host, _sources: Sources, _private: dict[str, bytes]
) -> Iterator[Resource]:
    if profile.time is None:
        return
    zone = profile.time.timezone
    # localtime(5): without the link the zone is UTC; small images have no zone files to link to.
    yield Link(path="/etc/localtime", target=f"/usr/share/zoneinfo/{zone}", absent_is_same=zone == "UTC")
    yield File.of("/etc/timezone", f"{zone}\n")
    if profile.time.servers:
        servers = profile.time.servers
        for name, path, text in (
            ("systemd-timesyncd.service", TIMESYNCD, f"[Time]\nNTP={' '.join(servers)}\n"),
            ("chrony.service", CHRONY, "".join(f"server {server} iburst\n" for server in servers)),
        ):
            yield File.of(path, text)
            yield Unit(name=name, optional=True)


def _node_exporter(
    _inventory: Inventory, profile: Profile, host: Host, sources: Sources, _private: dict[str, bytes]
) -> Iterator[Resource]:
    exporter = profile.node_exporter
    if exporter is None:
        return
    closure = sources.closures.get(exporter.package)
    if closure is None:
        raise BadInput(
            f"the bundle {sources.bundle or '(none named)'} has no package {exporter.package!r}",
            field="node_exporter.package",
            do=f"make one with: podsys bundle --package {exporter.package}",
        )
    unit = f"{exporter.package}.service"
    yield File.of(
        f"/etc/systemd/system/{unit}.d/podsys.conf",
        drop_in([f"/usr/bin/{exporter.package}", f"--web.listen-address={host.address}:{exporter.port}"]),
        restarts=unit,
    )
    version = next(deb.version for deb in closure if deb.package == exporter.package)
    yield Package(name=exporter.package, version=version, closure=closure, restarts=unit)
    yield Unit(name=unit)


def _python_services(
    _inventory: Inventory, profile: Profile, host: Host, sources: Sources, private: dict[str, bytes]
) -> Iterator[Resource]:
    for service in profile.python_services:
        file, digest = sources.wheels[service.wheel]
        folder = f"/opt/podsys/{service.name}/{digest[:16]}"
        name = f"{service.name}.service"
        yield Wheel(name=service.name, folder=folder, sha256=digest, file=file, restarts=name)
        environment = f"/etc/podsys/{service.name}.env"
        text = _environment(service, host, sources, folder).encode()
        mark = "hmac:" + hmac.new(sources.key, text, hashlib.sha256).hexdigest()
        private[mark] = text
        yield File(path=environment, digest=mark, mode="0600", restarts=name)
        unit = service_unit(
            description=f"{service.name} (podsys python service)",
            command=[service.python, *(fill(word, host) for word in service.command)],
            environment=environment,
            user=service.user,
            restart_s=service.restart_s,
            kill_mode=service.kill_mode,
        )
        yield File.of(f"/etc/systemd/system/{name}", unit, restarts=name)
        yield Unit(name=name)


def _environment(service: PythonService, host: Host, sources: Sources, folder: str) -> str:
    values = {name: fill(value, host) for name, value in service.environment.items()}
    values |= {name: sources.secrets[service.name, name] for name in service.secrets}
    more = values.get("PYTHONPATH")
    return environment_file(values | {"PYTHONPATH": f"{folder}:{more}" if more else folder})


def fill(text: str, host: Host) -> str:
    """`{hostname}`, `{id}`, `{address}` and `{address.SEGMENT}` of this host; nothing else is touched."""
    values = {"hostname": host.hostname, "id": host.id, "address": host.address}
    values |= {f"address.{segment}": address for segment, address in host.addresses.items()}
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


Build = Callable[[Inventory, Profile, Host, Sources, dict[str, bytes]], Iterator[Resource]]

#: role: what it manages, in the order of applying.
ROLES: dict[str, Build] = {
    "os_settings": _os_settings,
    "hosts_file": _hosts_file,
    "users": _users,
    "time": _time,
    "node_exporter": _node_exporter,
    "python_services": _python_services,
}
