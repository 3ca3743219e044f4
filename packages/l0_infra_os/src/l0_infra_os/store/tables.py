"""The tables.  Times are seconds since 1970 (UTC); `version` fences every change of a row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Float, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

PREFIX = "l0"


class Base(DeclarativeBase):
    """Tables of this layer, prefixed so that layers share a database."""

    type_annotation_map = {dict[str, Any]: JSON, list[str]: JSON}  # noqa: RUF012 (SQLAlchemy's hook)


class Tenant(Base):
    """Who leases nodes.  `number` gives its segments and networks; quota None is no limit."""

    __tablename__ = "l0_tenant"

    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, unique=True)
    quota_nodes: Mapped[int | None] = mapped_column(Integer)
    created: Mapped[float] = mapped_column(Float)
    version: Mapped[int] = mapped_column(Integer)

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012 (SQLAlchemy's hook)


class Lease(Base):
    """Nodes that a tenant holds together."""

    __tablename__ = "l0_lease"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    tenant: Mapped[str] = mapped_column(ForeignKey("l0_tenant.name"), index=True)
    state: Mapped[str] = mapped_column(String(16))
    nodes: Mapped[int] = mapped_column(Integer)
    spares: Mapped[int] = mapped_column(Integer)
    flavor: Mapped[str | None] = mapped_column(String(63))
    image_digest: Mapped[str | None] = mapped_column(String(71))
    ssh_keys: Mapped[list[str]] = mapped_column(default=list)
    problem: Mapped[str | None] = mapped_column(Text)
    created: Mapped[float] = mapped_column(Float)
    ended: Mapped[float | None] = mapped_column(Float)
    version: Mapped[int] = mapped_column(Integer)

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012 (SQLAlchemy's hook)


class Node(Base):
    """One machine.  `phase`, `tries`, `due` and `deadline` belong to the state that is in flight.

    `dirty`: a tenant's data may be on it.  `connected`: its ports may be on a tenant's segments."""

    __tablename__ = "l0_node"

    id: Mapped[str] = mapped_column(String(63), primary_key=True)
    number: Mapped[int] = mapped_column(Integer, unique=True)
    uuid: Mapped[str] = mapped_column(String(64), unique=True)
    serial: Mapped[str] = mapped_column(String(128))
    bmc_address: Mapped[str] = mapped_column(String(255), unique=True)
    model: Mapped[str] = mapped_column(String(128), default="")
    flavor: Mapped[str] = mapped_column(String(63), default="")
    leaf: Mapped[str] = mapped_column(String(63), default="")
    rack: Mapped[str] = mapped_column(String(63), default="")
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)
    power: Mapped[str] = mapped_column(String(16), default="unknown")

    state: Mapped[str] = mapped_column(String(16), index=True)
    since: Mapped[float] = mapped_column(Float)
    phase: Mapped[str] = mapped_column(String(16), default="")
    tries: Mapped[int] = mapped_column(Integer, default=0)
    due: Mapped[float] = mapped_column(Float, default=0.0)
    deadline: Mapped[float | None] = mapped_column(Float)
    order_number: Mapped[int] = mapped_column(Integer, default=0)
    problem: Mapped[str | None] = mapped_column(Text)
    dirty: Mapped[bool] = mapped_column(default=False)
    connected: Mapped[bool] = mapped_column(default=False)
    version: Mapped[int] = mapped_column(Integer)

    lease_id: Mapped[str | None] = mapped_column(ForeignKey("l0_lease.id"), index=True)
    role: Mapped[str] = mapped_column(String(16), default="member")
    image_digest: Mapped[str | None] = mapped_column(String(71))
    host_key: Mapped[str | None] = mapped_column(Text)

    ports: Mapped[list[Port]] = relationship(
        back_populates="node", cascade="all, delete-orphan", lazy="selectin", order_by="Port.position"
    )

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Port(Base):
    """A network port; its MAC is unique in the site.  `observed` is what was last seen of it."""

    __tablename__ = "l0_port"

    mac: Mapped[str] = mapped_column(String(17), primary_key=True)
    node_id: Mapped[str] = mapped_column(ForeignKey("l0_node.id", ondelete="CASCADE"), index=True)
    position: Mapped[int] = mapped_column(Integer)
    name: Mapped[str] = mapped_column(String(64), default="")
    kind: Mapped[str] = mapped_column(String(16))
    fabric: Mapped[str] = mapped_column(String(16), default="ethernet")
    link_gbps: Mapped[float | None] = mapped_column(Float)
    observed: Mapped[str | None] = mapped_column(String(80))
    observed_at: Mapped[float | None] = mapped_column(Float)
    node: Mapped[Node] = relationship(back_populates="ports")


class Interval(Base):
    """A stretch of a node's life in one state, for a tenant: the ground of timeline and metering."""

    __tablename__ = "l0_interval"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    node: Mapped[str] = mapped_column(String(63), index=True)
    state: Mapped[str] = mapped_column(String(16))
    event: Mapped[str] = mapped_column(String(16))
    cause: Mapped[str | None] = mapped_column(Text)
    tenant: Mapped[str | None] = mapped_column(String(63), index=True)
    lease: Mapped[str | None] = mapped_column(String(32))
    start: Mapped[float] = mapped_column(Float)
    end: Mapped[float | None] = mapped_column(Float)


class Audit(Base):
    """Who did what to which thing; rows are only ever added."""

    __tablename__ = "l0_audit"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    at: Mapped[float] = mapped_column(Float)
    actor: Mapped[str] = mapped_column(String(80))
    verb: Mapped[str] = mapped_column(String(32))
    subject: Mapped[str] = mapped_column(String(80))
    tenant: Mapped[str | None] = mapped_column(String(63))
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)


Index("l0_node_lease_state", Node.lease_id, Node.state)
Index("l0_interval_open", Interval.node, Interval.end)
