"""The lab's cables and switches: namespaces, veth pairs, the management bridge and its guard."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable

from l0_infra_os._kit.problems import Unavailable
from l0_infra_os.backends.fabric.description import FabricDescription, FabricPort
from l0_infra_os.backends.programs import attempt, batch, run
from l0_infra_os.ports import MANAGEMENT

from .plan import Machine, Plan

UPLINK = "uplink"
NO_IPV6 = """
for name in all default; do
    file=/proc/sys/net/ipv6/conf/$name/disable_ipv6
    test ! -e $file || echo 1 > $file
done
"""
"""Link-local addresses would answer on every segment, and nobody hands out others here."""


def describe(plan: Plan) -> FabricDescription:
    """What the fabric backend needs to know of this lab."""
    ports = tuple(
        FabricPort(mac=port.mac, interface=port.interface, segment=port.segment, leaf=machine.leaf)
        for machine in plan.machines
        for port in machine.ports
    )
    return FabricDescription(
        netns=None if plan.subnet is None else plan.fabric_netns,
        controller=plan.controller,
        network=plan.network,
        ports=ports,
    )


def free_subnet(identity: str) -> int:
    """An x for 10.71.x.0/24 that no interface of this host has; the lab's own number if free."""
    taken = set()
    for link in json.loads(run(["ip", "-j", "-4", "address", "show"]) or "[]"):
        for address in link.get("addr_info", ()):
            octets = str(address.get("local", "")).split(".")
            if octets[:2] == ["10", "71"]:
                taken.add(int(octets[2]))
    start = int(hashlib.sha256(identity.encode()).hexdigest(), 16) % 250
    for step in range(250):
        candidate = (start + step) % 250 + 1
        if candidate not in taken:
            return candidate
    raise Unavailable("no 10.71.x.0/24 network is free", do="infra-os lab clean")


def build(plan: Plan) -> None:
    """Makes every namespace, cable and switch of the lab (seconds for hundreds of machines)."""
    batch(_namespaces(plan))
    batch(_fabric(plan), netns=plan.fabric_netns)
    for netns in [plan.fabric_netns, *_machine_namespaces(plan)]:
        run([*enter(netns), "sh", "-ec", NO_IPV6])
    run([*enter(plan.fabric_netns), "nft", "-f", "-"], stdin=_guard(plan))


def remove(identity: str) -> None:
    """Removes whatever of a lab's network is there; nothing there is fine."""
    attempt(["ip", "link", "delete", f"ogai{identity}"])
    names = [name for name in namespaces() if name.startswith(f"ogai-{identity}-")]
    if names:
        batch([f"netns delete {name}" for name in names], force=True)


def namespaces() -> list[str]:
    """The names of all network namespaces of this host."""
    return [line.split()[0] for line in attempt(["ip", "netns", "list"]).stdout.splitlines() if line.strip()]


def enter(netns: str) -> list[str]:
    """The words before a command that make it run in a network namespace (and nothing else)."""
    return ["nsenter", f"--net=/run/netns/{netns}"]


def processes_in(netns: str) -> list[int]:
    """Who runs in a network namespace."""
    done: subprocess.CompletedProcess[str] = attempt(["ip", "netns", "pids", netns])
    return [int(word) for word in done.stdout.split()]


def _machine_namespaces(plan: Plan) -> list[str]:
    return [plan.netns(machine) for machine in plan.machines] if plan.kind == "nspawn" else []


def _namespaces(plan: Plan) -> Iterable[str]:
    yield f"netns add {plan.fabric_netns}"
    for netns in _machine_namespaces(plan):
        yield f"netns add {netns}"
    yield (f"link add name {plan.host_interface} type veth peer name {UPLINK} netns {plan.fabric_netns}")
    yield f"address add {plan.controller}/24 dev {plan.host_interface}"
    yield f"link set dev {plan.host_interface} up"


def _fabric(plan: Plan) -> Iterable[str]:
    yield "link set dev lo up"
    yield "link add name mgmt type bridge mcast_snooping 0"
    yield f"link set dev mgmt alias {MANAGEMENT.name}"
    yield "link set dev mgmt up"
    yield f"link set dev {UPLINK} master mgmt up"
    for machine in plan.machines:
        yield from _cables(plan, machine)


def _cables(plan: Plan, machine: Machine) -> Iterable[str]:
    for port in machine.ports:
        if plan.kind == "qemu":
            yield f"tuntap add dev {port.interface} mode tap"
        else:
            netns = plan.netns(machine)
            yield (
                f"link add name {port.interface} type veth peer name {port.nic} "
                f"address {port.mac} netns {netns}"
            )
        yield f"link set dev {port.interface} up"
    # An isolated bridge port exchanges frames with the uplink only, never with another machine.
    yield f"link set dev {machine.management.interface} master mgmt"
    yield f"link set dev {machine.management.interface} type bridge_slave isolated on"


def _guard(plan: Plan) -> str:
    """Management traffic goes between a machine and the controller, from the machine's own MAC.

    Port isolation alone would leave a way round: a frame to the controller's MAC with another
    machine's IP address, for the host to route back.
    """
    rules = [
        f'iifname "{machine.management.interface}" ether saddr != {machine.management.mac} drop'
        for machine in plan.machines
    ]
    machines = ", ".join(f'"{machine.management.interface}"' for machine in plan.machines)
    rules += [
        f"iifname {{ {machines} }} ip daddr != {{ {plan.controller}, 255.255.255.255 }} drop",
        f"iifname {{ {machines} }} meta protocol != {{ ip, arp }} drop",
    ]
    lines = "\n".join(["type filter hook forward priority 0", *rules])
    return f"table bridge ogai {{\nchain forward {{\n{lines}\n}}\n}}\n"
