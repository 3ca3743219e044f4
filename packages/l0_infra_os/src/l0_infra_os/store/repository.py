"""Transactions.  The only writers of `state` are `move` and `move_lease`, by the tables of `core`.

A change of a row is fenced by its version (SQLAlchemy checks it on every UPDATE): whoever read an
older version changes nothing and gets `Stale`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import Engine, func, select, update
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.orm.exc import StaleDataError

from l0_infra_os._kit.problems import Conflict, NotFound
from l0_infra_os.core.lifecycle import (
    HELD,
    IN_FLIGHT,
    LeaseState,
    NodeState,
    after,
    lease_after,
    lease_event,
)

from .tables import Audit, Interval, Lease, Node, Port, Tenant

T = TypeVar("T")
RACES = 20
"""How often a transaction that lost a race is tried again."""


class Stale(Conflict):
    """The row has moved on since it was read: the step is somebody else's, or done."""


class Store:
    """The database of one site."""

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self.engine = engine
        self.clock = clock
        self._sessions = sessionmaker(engine, expire_on_commit=False)

    @contextlib.contextmanager
    def begin(self) -> Iterator[Transaction]:
        """One transaction: committed whole at the end, or not at all."""
        with self._sessions.begin() as session:
            yield Transaction(session, self.clock())

    def run(self, work: Callable[[Transaction], T]) -> T:
        """`work` in a transaction, again from the start when another one was faster."""
        for _ in range(RACES):
            try:
                with self.begin() as tx:
                    return work(tx)
            except (StaleDataError, IntegrityError, OperationalError) as error:
                last = error
        raise Conflict("too many others change the same things", why=str(last), do="try again") from last

    def close(self) -> None:
        self.engine.dispose()


class Transaction:
    """What a transaction reads and writes; `now` is its one moment."""

    def __init__(self, session: Session, now: float) -> None:
        self.session = session
        self.now = now

    # ------------------------------------------------------------------------------- reading

    def node(self, node_id: str, *, tenant: str | None = None) -> Node:
        """A node; for a tenant only one that it holds, any other is `NotFound`."""
        node = self.session.get(Node, node_id)
        if node is None or (tenant is not None and self.tenant_of(node) != tenant):
            raise NotFound(f"no node {node_id!r}", do="look at `infra-os nodes`")
        return node

    def node_at(self, node_id: str, version: int) -> Node:
        """The node if it is still at this version, else `Stale`."""
        node = self.session.get(Node, node_id)
        if node is None or node.version != version:
            raise Stale(f"node {node_id} is no longer at version {version}")
        return node

    def node_of_port(self, mac: str) -> Node:
        """The node that has a port with this MAC."""
        port = self.session.get(Port, mac.lower())
        if port is None:
            raise NotFound(f"no node with MAC {mac!r}", do="enroll it first")
        return port.node

    def nodes(
        self,
        *,
        tenant: str | None = None,
        lease: str | None = None,
        states: Sequence[NodeState] | None = None,
    ) -> list[Node]:
        """Nodes in the order of their numbers, filtered."""
        query = select(Node).order_by(Node.number)
        if tenant is not None:
            query = query.join(Lease, Node.lease_id == Lease.id).where(Lease.tenant == tenant)
        if lease is not None:
            query = query.where(Node.lease_id == lease)
        if states is not None:
            query = query.where(Node.state.in_([state.value for state in states]))
        return list(self.session.scalars(query))

    def due(self) -> list[tuple[str, int]]:
        """(id, version) of in-flight nodes whose time has come."""
        query = (
            select(Node.id, Node.version)
            .where(Node.state.in_([state.value for state in IN_FLIGHT]), Node.due <= self.now)
            .order_by(Node.due)
        )
        return [(row.id, row.version) for row in self.session.execute(query)]

    def next_due(self) -> float | None:
        """When the next in-flight node is due."""
        query = select(func.min(Node.due)).where(Node.state.in_([state.value for state in IN_FLIGHT]))
        return self.session.scalar(query)

    def tenant(self, name: str, *, lock: bool = False) -> Tenant:
        """A tenant; locked, until the end of the transaction, against others that would count its nodes."""
        tenant = self.session.get(Tenant, name, with_for_update=lock or None)
        if tenant is None:
            raise NotFound(f"no tenant {name!r}", do=f"make it: infra-os tenant add {name}")
        return tenant

    def lease(self, lease_id: str, *, tenant: str | None = None) -> Lease:
        """A lease; for a tenant only its own, any other is `NotFound`."""
        lease = self.session.get(Lease, lease_id)
        if lease is None or (tenant is not None and lease.tenant != tenant):
            raise NotFound(f"no lease {lease_id!r}", do="look at `infra-os leases`")
        return lease

    def tenant_of(self, node: Node) -> str | None:
        """The tenant whose lease the node is in."""
        if node.lease_id is None:
            return None
        return self.session.scalar(select(Lease.tenant).where(Lease.id == node.lease_id))

    def held(self, tenant: str) -> int:
        """How many nodes a tenant holds."""
        return len(self.nodes(tenant=tenant, states=list(HELD)))

    # ------------------------------------------------------------------------------- writing

    def move(
        self, node: Node, event: str, *, cause: str | None = None, leave: bool = False, due: float = 0.0
    ) -> None:
        """Takes a node through one transition; `leave` takes it out of its lease with that.

        Closes the interval of the old state and opens the new one in the same transaction, and
        settles the lease whose nodes have changed.
        """
        state = after(NodeState(node.state), event)
        tenant = self.tenant_of(node)
        lease_id = node.lease_id
        if leave:
            node.lease_id, node.role, tenant = None, "member", None
        node.state, node.since, node.phase, node.tries = state, self.now, "", 0
        node.due, node.deadline = due, None
        if event not in ("fail", "reject", "isolated"):
            node.problem = None
        if cause is not None:
            node.problem = cause
        self.interval(node, event, tenant=tenant, cause=cause)
        self.session.flush()
        if lease_id is not None:
            self.settle(lease_id)

    def interval(self, node: Node, event: str, *, tenant: str | None, cause: str | None = None) -> None:
        """Closes the node's open interval and opens the next."""
        self.close_interval(node.id)
        self.session.add(
            Interval(
                node=node.id,
                state=node.state,
                event=event,
                cause=cause,
                tenant=tenant,
                lease=node.lease_id,
                start=self.now,
            )
        )

    def close_interval(self, node_id: str) -> None:
        """Ends the stretch that a node is in."""
        self.session.execute(
            update(Interval).where(Interval.node == node_id, Interval.end.is_(None)).values(end=self.now)
        )

    def settle(self, lease_id: str) -> None:
        """Moves a lease on when its nodes' states say so."""
        lease = self.lease(lease_id)
        nodes = self.nodes(lease=lease_id)
        states = [NodeState(node.state) for node in nodes]
        event = lease_event(LeaseState(lease.state), lease.nodes + lease.spares, states)
        if event is not None:
            reasons = [f"{node.id}: {node.problem}" for node in nodes if node.problem]
            self.move_lease(lease, event, problem="; ".join(reasons) or None)

    def move_lease(self, lease: Lease, event: str, *, problem: str | None = None) -> None:
        """Takes a lease through one transition."""
        lease.state = lease_after(LeaseState(lease.state), event)
        if event in ("provision", "ready"):
            lease.problem = None
        elif problem is not None:
            lease.problem = problem
        if event == "end":
            lease.ended = self.now
        self.session.flush()

    def audit(self, actor: str, verb: str, subject: str, *, tenant: str | None = None, **detail: Any) -> None:
        """Adds a row to the audit log."""
        self.session.add(
            Audit(at=self.now, actor=actor, verb=verb, subject=subject, tenant=tenant, detail=detail)
        )
