"""The life of a node and of a lease: one table each, and sets that say what a crash means.

A node in an in-flight state is carried on by the reconciler, before and after a restart alike;
a node in a stable state waits for a command.  Nothing else changes a state.
"""

from __future__ import annotations

from enum import StrEnum

from l0_infra_os._kit.problems import Conflict


class NodeState(StrEnum):
    """Where a node stands."""

    ENROLLED = "enrolled"  # its BMC answers; nothing is known from inside
    INSPECTING = "inspecting"  # boots the agent, which reports what it finds
    AVAILABLE = "available"  # known, erased, isolated, off
    LEASED = "leased"  # belongs to a tenant; isolated, off
    DEPLOYING = "deploying"  # boots the agent, which writes the image
    ATTACHING = "attaching"  # off; its ports move to the tenant's segments
    BOOTING = "booting"  # boots the tenant's system from its disk
    ACTIVE = "active"  # the tenant's system has checked in
    DETACHING = "detaching"  # its ports leave the tenant's segments
    ERASING = "erasing"  # isolated; boots the agent, which erases
    CONDEMNED = "condemned"  # faulty; its ports leave the tenant's segments
    QUARANTINED = "quarantined"  # faulty, isolated; waits for a repair


S = NodeState

#: (from, event) -> to
TRANSITIONS: dict[tuple[NodeState, str], NodeState] = {
    (S.ENROLLED, "inspect"): S.INSPECTING,
    (S.AVAILABLE, "inspect"): S.INSPECTING,
    (S.INSPECTING, "inspected"): S.AVAILABLE,
    (S.INSPECTING, "fail"): S.QUARANTINED,
    (S.AVAILABLE, "lease"): S.LEASED,
    (S.LEASED, "provision"): S.DEPLOYING,
    (S.DEPLOYING, "deployed"): S.ATTACHING,
    (S.DEPLOYING, "reject"): S.LEASED,  # the image is at fault, not the node
    (S.ATTACHING, "attached"): S.BOOTING,
    (S.BOOTING, "booted"): S.ACTIVE,
    (S.LEASED, "fail"): S.CONDEMNED,
    (S.DEPLOYING, "fail"): S.CONDEMNED,
    (S.ATTACHING, "fail"): S.CONDEMNED,
    (S.BOOTING, "fail"): S.CONDEMNED,
    (S.ACTIVE, "fail"): S.CONDEMNED,
    (S.CONDEMNED, "isolated"): S.QUARANTINED,
    (S.LEASED, "release"): S.DETACHING,
    (S.DEPLOYING, "release"): S.DETACHING,
    (S.ATTACHING, "release"): S.DETACHING,
    (S.BOOTING, "release"): S.DETACHING,
    (S.ACTIVE, "release"): S.DETACHING,
    (S.DETACHING, "isolated"): S.ERASING,
    (S.ERASING, "erased"): S.AVAILABLE,
    (S.ERASING, "fail"): S.QUARANTINED,
    (S.QUARANTINED, "repair"): S.DETACHING,  # a tenant's data may be on it: erase first
    (S.QUARANTINED, "retest"): S.INSPECTING,  # it never held a tenant's data
}

IN_FLIGHT = frozenset(
    {S.INSPECTING, S.DEPLOYING, S.ATTACHING, S.BOOTING, S.DETACHING, S.ERASING, S.CONDEMNED}
)
STABLE = frozenset(set(S) - IN_FLIGHT)
#: States in which an operator may forget the node: no tenant's data, no tenant's ports.
DELETABLE = frozenset({S.ENROLLED, S.AVAILABLE})
#: States of a node that a tenant holds and is charged for.
HELD = frozenset({S.LEASED, S.DEPLOYING, S.ATTACHING, S.BOOTING, S.ACTIVE})
#: The only states in which a port may be on a tenant's segment.
CONNECTED = frozenset({S.ATTACHING, S.BOOTING, S.ACTIVE})
#: States that end only when the fabric has shown that the ports are isolated: never given up.
ISOLATING = frozenset({S.DETACHING, S.CONDEMNED})
#: Steps of a provisioning, in order; used for progress.
PROVISIONING = (S.DEPLOYING, S.ATTACHING, S.BOOTING, S.ACTIVE)

#: What the machine is told to do when it boots from the network in a state.
BOOT_ACTIONS = {S.INSPECTING: "inspect", S.DEPLOYING: "deploy", S.ERASING: "erase"}


def after(state: NodeState, event: str) -> NodeState:
    """The state after `event`; `Conflict` names the events that the state allows."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        allowed = sorted({name for (source, name) in TRANSITIONS if source == state})
        raise Conflict(
            f"a node that is {state} cannot {event}",
            why=f"from {state} it can only: {', '.join(allowed)}",
        ) from None


class LeaseState(StrEnum):
    """Where a lease stands."""

    RESERVED = "reserved"  # its nodes are set aside
    PROVISIONING = "provisioning"  # its nodes get their system
    ACTIVE = "active"  # all its nodes run
    DEGRADED = "degraded"  # some nodes failed and no other was free
    RELEASING = "releasing"  # its nodes are isolated and erased
    ENDED = "ended"


L = LeaseState

LEASE_TRANSITIONS: dict[tuple[LeaseState, str], LeaseState] = {
    (L.RESERVED, "provision"): L.PROVISIONING,
    (L.ACTIVE, "provision"): L.PROVISIONING,
    (L.DEGRADED, "provision"): L.PROVISIONING,
    (L.PROVISIONING, "ready"): L.ACTIVE,
    (L.PROVISIONING, "short"): L.DEGRADED,
    (L.ACTIVE, "short"): L.DEGRADED,
    (L.PROVISIONING, "reject"): L.RESERVED,
    (L.RESERVED, "release"): L.RELEASING,
    (L.PROVISIONING, "release"): L.RELEASING,
    (L.ACTIVE, "release"): L.RELEASING,
    (L.DEGRADED, "release"): L.RELEASING,
    (L.RELEASING, "end"): L.ENDED,
}

LEASE_OPEN = frozenset(set(L) - {L.RELEASING, L.ENDED})


def lease_after(state: LeaseState, event: str) -> LeaseState:
    """The lease's state after `event`; `Conflict` when the state does not allow it."""
    try:
        return LEASE_TRANSITIONS[state, event]
    except KeyError:
        raise Conflict(f"a lease that is {state} cannot {event}") from None


def lease_event(state: LeaseState, wanted: int, nodes: list[NodeState]) -> str | None:
    """What the states of its nodes mean for a lease; None while something is in flight."""
    if state is L.RELEASING:
        return None if nodes else "end"
    held = [node for node in nodes if node in HELD]
    if state is not L.PROVISIONING or any(node in IN_FLIGHT for node in held):
        return None
    if any(node is S.LEASED for node in held):
        return "reject"
    return "ready" if len(held) >= wanted else "short"
