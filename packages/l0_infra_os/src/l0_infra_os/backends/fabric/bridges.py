"""Linux bridges as leaf and spine switches.

Every tenant segment has bridges of its own, so that segments share no forwarding table: a compute
segment is one bridge for each leaf, joined over a spine bridge by veth cables; a storage segment
is one bridge.  A port that belongs to no segment has no bridge: its frames go nowhere.  The
kernel is the only state: a bridge carries its segment's name as its alias.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l0_infra_os._kit.files import locked
from l0_infra_os._kit.problems import BadInput, Conflict, Unavailable
from l0_infra_os.backends.programs import attempt, batch
from l0_infra_os.ports import Fabric, Management, Segment

from .description import FabricDescription, FabricPort, read_description

MANAGEMENT_BRIDGE = "mgmt"


def open_bridges(lab_folder: Path) -> Fabric:
    """The fabric of a lab, which may be one without switches."""
    description = read_description(lab_folder)
    if description.netns is None:
        return NoSwitches(description)
    return BridgeFabric(description, lock=lab_folder / "fabric.lock")


@dataclass(frozen=True)
class NoSwitches:
    """The fabric of machines that are plain processes: nothing can be joined or seen."""

    description: FabricDescription

    @property
    def management(self) -> Management:
        """The loopback network."""
        return Management(self.description.controller, self.description.network)

    def apply(self, desired: Mapping[str, Segment | None]) -> None:
        """There is nothing to set: `Unavailable` says so."""
        if desired:
            raise Unavailable(
                "these machines have no network of their own",
                why="a lab of plain processes has no switches, so tenants cannot be isolated",
                do="use a lab of kind nspawn or qemu (needs root)",
            )

    def observe(self, macs: Sequence[str]) -> dict[str, str | None]:  # noqa: ARG002
        """Every port is unknown."""
        return {}


class BridgeFabric:
    """A `Fabric` of bridges in the network namespace that the description names."""

    def __init__(self, description: FabricDescription, *, lock: Path) -> None:
        self.description = description
        self._ports = {port.mac: port for port in description.ports}
        self._lock = lock

    @property
    def management(self) -> Management:
        """The host's own address on the management segment."""
        return Management(self.description.controller, self.description.network)

    def apply(self, desired: Mapping[str, Segment | None]) -> None:
        """Puts every named port on its segment, making bridges as needed."""
        for mac, segment in desired.items():
            self._check(mac, segment)
        with locked(self._lock):
            links = {link["ifname"]: link for link in self._links()}
            commands = list(self._renamed_bridges(desired, links))
            commands += self._missing_bridges(desired, set(links))
            masters = {name: link.get("master") for name, link in links.items()}
            for mac, segment in desired.items():
                port = self._ports[mac]
                bridge = None if segment is None else bridge_of(port, segment)
                if masters.get(port.interface) != bridge:
                    commands.append(_put(port, bridge))
            if commands:
                batch(commands, netns=self.description.netns)

    def observe(self, macs: Sequence[str]) -> dict[str, str | None]:
        """Reads from the kernel which bridge each port is on."""
        links = {link["ifname"]: link for link in self._links()}
        seen: dict[str, str | None] = {}
        for mac in macs:
            port = self._ports.get(mac)
            link = links.get(port.interface) if port else None
            if link is None:
                continue
            master = link.get("master")
            seen[mac] = None if master is None else links.get(master, {}).get("ifalias")
        return seen

    def _check(self, mac: str, segment: Segment | None) -> None:
        port = self._ports.get(mac)
        if port is None:
            raise BadInput(f"no switch port has a NIC with the MAC {mac}", field="mac")
        if segment is not None and segment.kind != port.segment:
            raise BadInput(
                f"the NIC {mac} is cabled to the {port.segment} network, not to {segment.kind}",
                field="segment",
            )
        if segment is not None and not 1 <= segment.number <= 4094:
            raise BadInput("a segment's number is in 1..4094", field="number")

    def _links(self) -> list[dict[str, Any]]:
        answer = attempt(["ip", "-n", str(self.description.netns), "-j", "-d", "link", "show"])
        if answer.returncode:
            raise Unavailable(
                "the switches do not answer", why=answer.stderr.strip(), do="infra-os lab status"
            )
        links: list[dict[str, Any]] = json.loads(answer.stdout or "[]")
        return links

    def _renamed_bridges(
        self, desired: Mapping[str, Segment | None], links: dict[str, dict[str, Any]]
    ) -> Iterable[str]:
        """A number that was another segment's serves the new one, once nobody is on the old one."""
        occupied = {
            links[port.interface].get("master") for port in self._ports.values() if port.interface in links
        }
        for segment in {s for s in desired.values() if s is not None and s.kind != "management"}:
            names = [name for name in links if re.fullmatch(rf"[cs]{segment.number}(-\d+|-s)?", name)]
            others = [name for name in names if links[name].get("ifalias") != segment.name]
            if occupied.intersection(others):
                raise Conflict(
                    f"the number {segment.number} of segment {segment.name} is in use",
                    why=f"ports are on {links[others[0]].get('ifalias')}",
                    do="give each segment of the site a number of its own",
                )
            for name in others:
                yield f'link set dev {name} alias "{segment.name}"'

    def _missing_bridges(self, desired: Mapping[str, Segment | None], present: set[str]) -> Iterable[str]:
        """Commands for the bridges and cables that the desired segments need and lack."""
        leaves = sorted({port.leaf for port in self.description.ports})
        for segment in sorted({s for s in desired.values() if s is not None}, key=lambda s: s.number):
            if segment.kind == "management":
                continue
            if segment.kind == "storage":
                yield from _bridge(f"s{segment.number}", segment, present)
                continue
            spine = f"c{segment.number}-s"
            yield from _bridge(spine, segment, present)
            for leaf in leaves:
                bridge = leaf_bridge(segment, leaf)
                yield from _bridge(bridge, segment, present)
                yield from _cable(bridge, spine, present)


def bridge_of(port: FabricPort, segment: Segment) -> str:
    """The bridge that a port joins for a segment: on its own leaf for compute."""
    if segment.kind == "management":
        return MANAGEMENT_BRIDGE
    if segment.kind == "storage":
        return f"s{segment.number}"
    return leaf_bridge(segment, port.leaf)


def leaf_bridge(segment: Segment, leaf: str) -> str:
    """A compute segment's bridge on one leaf (interface names have at most 15 characters)."""
    return f"c{segment.number}-{leaf.removeprefix('leaf')}"


def _bridge(name: str, segment: Segment, present: set[str]) -> Iterable[str]:
    if name not in present:
        yield f"link add name {name} type bridge mcast_snooping 0"
        yield f'link set dev {name} alias "{segment.name}"'
        yield f"link set dev {name} up"
        present.add(name)


def _cable(leaf: str, spine: str, present: set[str]) -> Iterable[str]:
    up, down = f"{leaf}u", f"{leaf}d"
    if up not in present:
        yield f"link add name {up} type veth peer name {down}"
        yield f"link set dev {up} master {leaf} up"
        yield f"link set dev {down} master {spine} up"
        present.update((up, down))


def _put(port: FabricPort, bridge: str | None) -> str:
    if bridge is None:
        return f"link set dev {port.interface} nomaster"
    return f"link set dev {port.interface} master {bridge}"
