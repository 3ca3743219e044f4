"""What a schema cannot say: nothing twice, every address in its network, no overlapping networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from l1_podsys._kit.problems import BadInput

from .model import Inventory

RESERVED = ("all", "ungrouped", "localhost", "implicit")

Claim = tuple[str, str, str, str]
"""What (for the message), its value, the field, the host that has it."""


def lint(inventory: Inventory) -> None:
    """Raises one `BadInput` that names the first field at fault, the value and both holders."""
    for index, host in enumerate(inventory.hosts):
        if host.id in RESERVED:
            raise BadInput(
                f"{host.id!r} has a meaning of its own in Ansible",
                field=f"hosts.{index}.id",
                do="use another id",
            )
    if inventory.shared_path is not None and not inventory.shared_path.startswith("/"):
        raise BadInput(
            f"{inventory.shared_path!r} is not absolute",
            field="shared_path",
            do="write the folder's path as the hosts see it, as /srv/storage",
        )
    _nothing_twice(inventory)
    networks = _networks(inventory)
    _no_overlap(networks)
    _addresses_inside(inventory, networks)


def _claims(inventory: Inventory) -> Iterator[Claim]:
    """Everything that may be held once in a cluster, in the order in which faults are told."""
    for index, host in enumerate(inventory.hosts):
        at = f"hosts.{index}"
        yield "id", host.id, f"{at}.id", host.id
        yield "hostname", host.hostname.lower(), f"{at}.hostname", host.id
        if host.serial:
            yield "serial", host.serial, f"{at}.serial", host.id
        for number, nic in enumerate(host.nics):
            yield "MAC", nic.mac, f"{at}.nics.{number}.mac", host.id
        login = inventory.login(host)
        yield "address", f"{_plain(host.address)} port {login.port}", f"{at}.address", host.id
        for segment, address in host.addresses.items():
            if _plain(address) != _plain(host.address):
                yield "address", _plain(address), f"{at}.addresses.{segment}", host.id


def _nothing_twice(inventory: Inventory) -> None:
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    for what, value, field, holder in _claims(inventory):
        first = seen.setdefault((what, value), (field, holder))
        if first[0] != field:
            raise BadInput(
                f"{what} {value} is already held by host {first[1]} ({first[0]})",
                field=field,
                why=f"two hosts with one {what} cannot be told apart",
                do=f"give {holder} its own {what}",
            )


def _plain(address: str) -> str:
    """One spelling for one address."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower()


def _networks(inventory: Inventory) -> dict[str, ipaddress.IPv4Network | ipaddress.IPv6Network]:
    found = {}
    for segment, text in inventory.networks.items():
        try:
            found[segment] = ipaddress.ip_network(text)
        except ValueError as error:
            raise BadInput(
                f"{text!r} is not a network: {error}",
                field=f"networks.{segment}",
                do="write the network's first address and the prefix length, as 10.1.0.0/24",
            ) from error
    return found


def _no_overlap(networks: dict[str, ipaddress.IPv4Network | ipaddress.IPv6Network]) -> None:
    names = list(networks)
    for index, name in enumerate(names):
        for other in names[:index]:
            if networks[name].version == networks[other].version and networks[name].overlaps(networks[other]):
                raise BadInput(
                    f"{networks[name]} overlaps networks.{other} ({networks[other]})",
                    field=f"networks.{name}",
                    why="traffic of one segment would leave through the other's port",
                    do="give each segment a range of its own",
                )


def _addresses_inside(
    inventory: Inventory, networks: dict[str, ipaddress.IPv4Network | ipaddress.IPv6Network]
) -> None:
    for index, host in enumerate(inventory.hosts):
        places = {"management": (host.address, f"hosts.{index}.address")}
        places |= {name: (text, f"hosts.{index}.addresses.{name}") for name, text in host.addresses.items()}
        for segment, (text, field) in places.items():
            network = networks.get(segment)
            if network is None:
                continue
            try:
                inside = ipaddress.ip_address(text) in network
            except ValueError:
                continue  # a DNS name: only its resolver can tell
            if not inside:
                raise BadInput(
                    f"{text} is outside networks.{segment} ({network})",
                    field=field,
                    do="correct the address, or the network's prefix length",
                )
