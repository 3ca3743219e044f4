"""Faults that can be put into a lab's machines, their BMCs and their cables."""

from __future__ import annotations

from collections.abc import Iterable

from l0_infra_os._kit.problems import BadInput
from l0_infra_os.backends.programs import attempt, batch, run

from .network import enter
from .plan import Machine, Plan, Port

FAULTS = {
    "power-loss": "the machine loses its power at once; its BMC goes on and tells so",
    "bmc-dead": "the BMC answers no more; the machine runs on",
    "bmc-ignores-boot": "the BMC accepts a boot override and keeps the old one",
    "boots-disk-anyway": "the machine boots its disk whatever the boot override says",
    "link-down": "the cable of a segment's port is out",
    "slow-link": "a segment's port carries only VALUE Mbit/s (default 10)",
    "packet-loss": "a segment's port loses VALUE percent of the frames both ways (default 10)",
}
LINK_FAULTS = ("link-down", "slow-link", "packet-loss")


def check_fault(fault: str) -> None:
    """`BadInput` when there is no such fault."""
    if fault not in FAULTS:
        raise BadInput(f"{fault!r} is not one of {', '.join(FAULTS)}", field="fault")


def port_of(machine: Machine, segment: str) -> Port:
    """The machine's port on a segment."""
    for port in machine.ports:
        if port.segment == segment:
            return port
    raise BadInput(f"{segment!r} is not one of management, compute, storage", field="segment")


def set_link_fault(plan: Plan, port: Port, fault: str, value: float | None) -> None:
    """Puts a fault on a switch port; the machine's side is not touched."""
    if plan.subnet is None:
        raise BadInput("a lab of plain processes has no cables", field="fault")
    clear_link_fault(plan, port, fault)
    if fault == "link-down":
        batch([f"link set dev {port.interface} down"], netns=plan.fabric_netns)
    elif fault == "slow-link":
        rate = _in_range(10 if value is None else value, 0.01, 100_000, "Mbit/s")
        shape = ["root", "tbf", "rate", f"{int(rate * 1000)}kbit", "burst", "64kb", "latency", "50ms"]
        run(["tc", "-n", plan.fabric_netns, "qdisc", "add", "dev", port.interface, *shape])
        _nft(plan, _limit(port, rate))
    else:
        _nft(plan, _loss(port, _in_range(10 if value is None else value, 0.01, 100, "percent")))


def clear_link_fault(plan: Plan, port: Port, fault: str) -> None:
    """Takes a fault off a switch port; no fault there is fine."""
    if fault == "link-down":
        batch([f"link set dev {port.interface} up"], netns=plan.fabric_netns)
        return
    if fault == "slow-link":
        attempt(["tc", "-n", plan.fabric_netns, "qdisc", "del", "dev", port.interface, "root"])
    table = _table(port, fault)
    attempt([*enter(plan.fabric_netns), "nft", "delete", "table", "netdev", table])


def _in_range(value: float, low: float, high: float, unit: str) -> float:
    if not low <= value <= high:
        raise BadInput(f"{value:g} is not in {low:g}..{high:g} {unit}", field="value")
    return value


def _table(port: Port, fault: str) -> str:
    return f"{fault}-{port.interface}".replace("-", "_")


def _nft(plan: Plan, lines: Iterable[str]) -> None:
    run([*enter(plan.fabric_netns), "nft", "-f", "-"], stdin="\n".join(lines) + "\n")


def _loss(port: Port, percent: float) -> Iterable[str]:
    """Drops at random in both directions (the kernel has no netem, nftables counts by itself)."""
    rule = f"numgen random mod 10000 < {round(percent * 100)} drop"
    yield f"table netdev {_table(port, 'packet-loss')} {{"
    for hook in ("ingress", "egress"):
        yield f"chain {hook} {{"
        yield f"type filter hook {hook} device {port.interface} priority 0"
        yield rule
        yield "}"
    yield "}"


def _limit(port: Port, rate_mbit: float) -> Iterable[str]:
    """tbf shapes what the switch sends; what it receives is policed to the same rate."""
    bytes_per_second = max(1, round(rate_mbit * 1e6 / 8))
    yield f"table netdev {_table(port, 'slow-link')} {{"
    yield "chain ingress {"
    yield f"type filter hook ingress device {port.interface} priority 0"
    yield f"limit rate over {bytes_per_second} bytes/second burst 65536 bytes drop"
    yield "}"
    yield "}"
