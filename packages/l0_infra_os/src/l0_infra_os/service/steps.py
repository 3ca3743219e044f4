"""One step of a node in flight: a handler for each state, each of which may run again after a crash.

A handler looks at the machine, does at most one thing to it and says what is next: `Move` to
another state, or `Stay`.  It changes no row itself: `advance` writes its answer, fenced by the
version that the handler was given.  A handler that raises is tried again after a jittered, doubling
pause; a node that keeps failing leaves service.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from l0_infra_os._kit.problems import Failed, Problem
from l0_infra_os.core.isolation import Port as FabricPort
from l0_infra_os.core.isolation import TenantSegments, desired, must_hold
from l0_infra_os.core.lifecycle import ISOLATING, NodeState
from l0_infra_os.ports import Bmc, BootOverride, PowerState
from l0_infra_os.store.repository import Stale, Transaction
from l0_infra_os.store.tables import Node, Tenant

from .enrolment import describe_failure
from .operations import condemn_node
from .site import Site

log = logging.getLogger(__name__)

POLL_S = 0.3
"""How often a power change is looked for."""
LONGEST_PAUSE_S = 60.0
#: Reasons with which an agent refuses that lie in the image or the body, not in the machine.
IMAGE_FAULTS = frozenset({"failed-digest", "failed-image", "failed-unsup"})

# Phases of a network boot (`Node.phase`).  Orders are given out only in STARTING and WAITING: the
# machine has been seen off in this very state, so that a tenant's system can never take an order.
STOPPING, STARTING, WAITING, DONE, ENDING = "stopping", "starting", "waiting", "done", "ending"


@dataclass(frozen=True)
class Move:
    """Go to another state by this event."""

    event: str
    cause: str | None = None
    leave: bool = False
    changes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stay:
    """Stay in the state, in this phase, and look again after `wait_s`."""

    phase: str
    wait_s: float = 0.0
    changes: dict[str, Any] = field(default_factory=dict)


Answer = Move | Stay


@dataclass(frozen=True)
class Step:
    """What a handler sees: the node as it was read, its tenant, and the moment."""

    site: Site
    node: Node
    tenant: TenantSegments | None
    now: float

    @property
    def bmc(self) -> Bmc:
        return self.site.bmc(self.node.bmc_address)

    def overdue(self) -> bool:
        return self.node.deadline is not None and self.now >= self.node.deadline


def advance(site: Site, node_id: str, version: int) -> bool:
    """Runs one step of a node that is at `version`; False when it is not any more."""
    try:
        with site.store.begin() as tx:
            node = tx.node_at(node_id, version)
            tenant = tx.tenant_of(node)
            segments = TenantSegments(tenant, tx.session.get_one(Tenant, tenant).number) if tenant else None
            tx.session.expunge_all()
        step = Step(site, node, segments, site.clock())
        try:
            answer = HANDLERS[NodeState(node.state)](step)
        except Problem as problem:
            fault = problem

            def fail(tx: Transaction) -> None:
                _failed(step, tx, tx.node_at(node_id, version), fault)

            _commit(site, fail)
        else:
            _commit(site, lambda tx: _apply(tx, tx.node_at(node_id, version), answer))
    except Stale:
        return False
    return True


def _commit(site: Site, work: Callable[[Transaction], None]) -> None:
    site.store.run(work)
    site.wake.set()


def _apply(tx: Transaction, node: Node, answer: Answer) -> None:
    for name, value in answer.changes.items():
        setattr(node, name, value)
    if isinstance(answer, Move):
        tx.move(node, answer.event, cause=answer.cause, leave=answer.leave)
    else:
        node.phase, node.due = answer.phase, tx.now + answer.wait_s
        tx.session.flush()


def _failed(step: Step, tx: Transaction, node: Node, problem: Problem) -> None:
    """A pause and another try; after the last try, out of service (isolating never gives up)."""
    settings, state = step.site.settings, NodeState(node.state)
    node.tries += 1
    reason = describe_failure(problem)
    log.warning("node %s, %s, try %d: %s", node.id, node.state, node.tries, reason)
    image_fault = node.phase in IMAGE_FAULTS
    last = node.tries >= settings.attempts or node.phase == "failed-unsup"
    if last and state is NodeState.DEPLOYING and image_fault:
        tx.move(node, "reject", cause=reason)
    elif last and state not in ISOLATING:
        condemn_node(tx, node, reason)
    else:
        pause = min(LONGEST_PAUSE_S, settings.retry_s * 2 ** min(node.tries - 1, 10))
        node.problem, node.phase, node.deadline = reason, "", None
        node.due = tx.now + pause * step.site.random.uniform(0.5, 1.5)
        tx.session.flush()


# ------------------------------------------------------------------------------------ handlers


def boot_agent(step: Step) -> Answer:
    """Off, override to the network, on, and wait for the agent's report.  Used by three states."""
    phase = step.node.phase
    if phase == STARTING:
        step.bmc.set_power("on")
        deadline = step.now + step.site.settings.boot_timeout_s
        return Stay(WAITING, step.site.settings.boot_timeout_s, {"deadline": deadline, "power": "on"})
    if phase == WAITING:
        return _wait_for_report(step, "the agent did not report")
    if phase.startswith("failed"):
        with contextlib.suppress(Problem):
            step.bmc.set_power("off")
        raise Failed(step.node.problem or "the agent reported a failure")
    if phase == STOPPING:
        return _stop(step, _may_start(step))
    power = step.bmc.set_boot(BootOverride("network", "once"))
    return _may_start(step) if power == "off" else _command_off(step)


def _may_start(step: Step) -> Stay:
    number = step.node.order_number + 1
    return Stay(STARTING, changes={"order_number": number, "power": "off", "deadline": None})


def _command_off(step: Step, phase: str = STOPPING) -> Stay:
    step.bmc.set_power("off")
    return Stay(phase, POLL_S / 2, {"deadline": step.now + step.site.settings.power_timeout_s})


def _stop(step: Step, then: Answer) -> Answer:
    """Waits, without holding anything, until the machine is off."""
    power: PowerState = step.bmc.power()
    if power == "off":
        return then
    if step.overdue():
        raise Failed(f"it does not power off: its BMC says {power}")
    return Stay(step.node.phase, POLL_S)


def _wait_for_report(step: Step, what: str) -> Answer:
    if step.overdue():
        minutes = step.site.settings.boot_timeout_s / 60
        raise Failed(f"{what} within {minutes:.0f} min", why="it booted something else, or no network")
    return Stay(WAITING, max(0.0, (step.node.deadline or step.now) - step.now))


def _then_off(step: Step, move: Move) -> Answer:
    """After the agent's report: power off, see it off, and only then move on."""
    if step.node.phase == DONE:
        return _command_off(step, ENDING)
    return _stop(step, Move(move.event, move.cause, move.leave, {**move.changes, "power": "off"}))


def inspecting(step: Step) -> Answer:
    """The agent looks at the machine; what it reports comes in by `orders.take_facts`."""
    if step.node.phase in (DONE, ENDING):
        return _then_off(step, Move("inspected"))
    return boot_agent(step)


def deploying(step: Step) -> Answer:
    """The agent writes the image to the disk and checks its digest."""
    if step.node.phase == DONE:
        return Move("deployed")
    return boot_agent(step)


def attaching(step: Step) -> Answer:
    """Off; then the ports onto the tenant's segments, and seen there before anything boots."""
    if step.node.phase == "":
        return _command_off(step)
    if step.node.phase == STOPPING:
        return _stop(step, Stay("off", changes={"power": "off", "connected": True}))
    command_network(step)
    return Move("attached")


def booting(step: Step) -> Answer:
    """The tenant's system, from the disk, from now on; then wait for its check-in."""
    phase = step.node.phase
    if phase == DONE:
        return Move("booted", changes={"power": "on"})
    if phase == WAITING:
        return _wait_for_report(step, "the system did not check in")
    if phase == STOPPING:
        return _stop(step, Stay(STARTING))
    if phase == STARTING:
        step.bmc.set_power("on")
        deadline = step.now + step.site.settings.boot_timeout_s
        return Stay(WAITING, step.site.settings.boot_timeout_s, {"deadline": deadline, "power": "on"})
    power = step.bmc.set_boot(BootOverride("disk", "continuous"))
    return Stay(STARTING) if power == "off" else _command_off(step)


def detaching(step: Step) -> Answer:
    """Isolated, and seen isolated, before anything else; a node that was never connected is."""
    if step.node.connected:
        command_network(step)
    return Move("isolated", changes={"connected": False})


def erasing(step: Step) -> Answer:
    """The agent erases the disk; a node that never had an image is clean as it is."""
    if not step.node.dirty:
        return Move("erased", leave=True)
    if step.node.phase in (DONE, ENDING):
        clean = {"dirty": False, "image_digest": None, "host_key": None}
        return _then_off(step, Move("erased", leave=True, changes=clean))
    return boot_agent(step)


def condemned(step: Step) -> Answer:
    """Isolated and, where its BMC still obeys, off."""
    if step.node.connected:
        command_network(step)
    changes: dict[str, Any] = {"connected": False}
    try:
        step.bmc.set_power("off")
        changes["power"] = "off"
    except Problem as problem:
        log.warning("node %s stays on: %s", step.node.id, describe_failure(problem))
        changes["power"] = "unknown"
    return Move("isolated", changes=changes)


def command_network(step: Step) -> None:
    """Commands where the node's ports have to be and looks; `Unavailable` unless they are there."""
    node, fabric = step.node, step.site.fabric
    ports = [FabricPort(port.mac, port.kind) for port in node.ports]  # type: ignore[arg-type]
    wanted = desired(NodeState(node.state), ports, step.tenant)
    fabric.apply(wanted)
    seen = fabric.observe(list(wanted))

    def record(tx: Transaction) -> None:
        for port in tx.node(node.id).ports:
            port.observed = (seen[port.mac] or "isolated") if port.mac in seen else "unknown"
            port.observed_at = tx.now

    step.site.store.run(record)
    must_hold(wanted, seen)


HANDLERS: dict[NodeState, Callable[[Step], Answer]] = {
    NodeState.INSPECTING: inspecting,
    NodeState.DEPLOYING: deploying,
    NodeState.ATTACHING: attaching,
    NodeState.BOOTING: booting,
    NodeState.DETACHING: detaching,
    NodeState.ERASING: erasing,
    NodeState.CONDEMNED: condemned,
}
