"""`InfraOs`: everything this layer does, for Python programs and for its own command line."""

from __future__ import annotations

import contextlib
import getpass
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ._kit.problems import BadInput, Failed, Problem, Unavailable
from .core.lifecycle import IN_FLIGHT
from .documents import NodeInventory
from .ports import Credentials, Fabric, Image, ImageStore, PowerAction, PowerState
from .service import enrolment, leasing, operations, planning, views
from .service.enrolment import Declared, Enrolled
from .service.site import Site, open_site
from .service.views import LeaseView, NodeView
from .settings import Settings
from .version import __version__

if TYPE_CHECKING:
    from .web.serving import Serving

Progress = Callable[[list[NodeView]], None]
Say = Callable[[str], None]
POLL_S = 0.2
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""The first bytes of a Zstandard frame (RFC 8878, 3.1.1)."""
IN_WORK = frozenset(state.value for state in IN_FLIGHT)


def _silent(_text: str) -> None:
    """Nobody is told."""


def _quiet(_nodes: list[NodeView]) -> None:
    """Nobody is told."""


class InfraOs:
    """One site.  Commands that need nodes carried on do that themselves unless a service does.

    Every call raises a `Problem` that says what, why and what to do.
    """

    def __init__(self, settings: Settings | None = None, *, actor: str | None = None, **parts: Any) -> None:
        self.settings = settings or Settings.load()
        self.actor = actor or f"local:{_login()}"
        self.site: Site = open_site(self.settings, **parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops serving and ends all sessions; what is in flight goes on with the next process."""
        if "_serving" in self.__dict__:
            self._serving.stop()
        self.site.close()

    @cached_property
    def _serving(self) -> Serving:
        """The web server is loaded by what needs it: commands that only look start faster."""
        from .web.serving import Serving

        return Serving(self.site)

    @property
    def fabric(self) -> Fabric:
        """The switches of this site."""
        return self.site.fabric

    @property
    def images(self) -> ImageStore:
        """The images of this site."""
        return self.site.images

    @contextlib.contextmanager
    def serving(self) -> Iterator[bool]:
        """Carries nodes on while the block runs, unless another process does (then it is False)."""
        here_before = self._serving.here
        here = self._serving.ensure()
        try:
            yield here
        finally:
            if here and not here_before:
                self._serving.stop()

    # -------------------------------------------------------------------------------- nodes

    def enroll(
        self,
        addresses: Sequence[str] = (),
        *,
        username: str,
        password: str | None = None,
        password_file: Path | None = None,
        declared: Sequence[Declared] = (),
        tick: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> Enrolled:
        """Takes in the machines whose BMCs answer at these addresses or ranges, all or none."""
        if password_file is not None:
            try:
                password = password_file.read_text("utf-8").rstrip("\r\n")
            except OSError as error:
                raise BadInput(f"cannot be read: {error.strerror}", field=str(password_file)) from error
            except UnicodeDecodeError:  # its words would show a part of the secret
                raise BadInput("holds no text", field=str(password_file)) from None
        if password is None:
            raise BadInput("no password", field="password", do="give password or password_file")
        credentials = Credentials(username, password)
        done = enrolment.enroll(
            self.site, addresses, credentials, actor=self.actor, declared=declared, tick=tick
        )
        with contextlib.suppress(Problem):  # without a fabric yet: done when serving starts
            self._serving.reserve_boot()
        return done

    def inspect(
        self, node_ids: Sequence[str] | None = None, *, wait: bool = True, progress: Progress = _quiet
    ) -> list[NodeView]:
        """Boots nodes (all that never were inspected, or these) into the agent that reports facts.

        Returns them as they then are; a node that failed is `quarantined` and says why.
        """
        with self._carried_on(wait=wait):
            started = operations.inspect(self.site, node_ids, actor=self.actor)
            if wait:
                self._wait(started, {"inspecting"}, progress)
        return [node for node in self.nodes() if node.id in started]

    def nodes(self, *, tenant: str | None = None, lease: str | None = None) -> list[NodeView]:
        """The nodes, filtered by who holds them."""
        return views.nodes(self.site, tenant=tenant, lease=lease)

    def node(self, node_id: str) -> dict[str, Any]:
        """One node with facts, ports and what was observed of them."""
        return views.node(self.site, node_id)

    def timeline(self, node_id: str) -> list[dict[str, Any]]:
        """The states of a node in order, with causes and durations."""
        return views.timeline(self.site, node_id)

    def power(self, node_id: str, action: PowerAction) -> PowerState:
        """Switches a node `on` or `off`, or `cycle`s it, through its BMC."""
        return operations.power(self.site, node_id, action, actor=self.actor)

    def quarantine(self, node_id: str, *, reason: str, wait: bool = True) -> str | None:
        """Takes a faulty node out of service; returns the node that took its place, if any."""
        with self._carried_on(wait=wait):
            replacement = operations.quarantine(self.site, node_id, reason=reason, actor=self.actor)
            if wait:
                self._wait([node_id, *([replacement] if replacement else [])], IN_WORK, _quiet)
        return replacement

    def repair(self, node_id: str, *, wait: bool = True) -> None:
        """Brings a quarantined node back: isolated, erased (or inspected), available."""
        with self._carried_on(wait=wait):
            operations.repair(self.site, node_id, actor=self.actor)
            if wait:
                self._wait([node_id], IN_WORK, _quiet)

    def forget(self, node_id: str) -> None:
        """Removes a node from the site."""
        operations.forget(self.site, node_id, actor=self.actor)

    # ------------------------------------------------------------------------------ tenancy

    def create_tenant(self, name: str, *, quota_nodes: int | None = None) -> None:
        """Makes a tenant with segments and networks of its own; None is no quota."""
        leasing.create_tenant(self.site, name, quota_nodes=quota_nodes, actor=self.actor)

    def remove_tenant(self, name: str) -> None:
        """Removes a tenant that holds nothing."""
        leasing.remove_tenant(self.site, name, actor=self.actor)

    def tenants(self) -> list[dict[str, Any]]:
        """Tenants with quota and what they hold."""
        return views.tenants(self.site)

    def lease(self, tenant: str, *, nodes: int, spares: int = 0, flavor: str | None = None) -> LeaseView:
        """Sets nodes aside: under as few leaves as can be, within the quota, all or none."""
        lease_id = leasing.lease(
            self.site, tenant, nodes=nodes, spares=spares, flavor=flavor, actor=self.actor
        )
        return self.lease_of(lease_id)

    def lease_of(self, lease_id: str) -> LeaseView:
        """A lease as it is now."""
        return views.lease(self.site, lease_id)

    def leases(self, *, tenant: str | None = None, ended: bool = False) -> list[LeaseView]:
        """Open leases, or all."""
        return views.leases(self.site, tenant=tenant, ended=ended)

    def plan_provision(self, lease_id: str, *, image: str) -> list[dict[str, Any]]:
        """What `provision` would do to each node; changes nothing."""
        return planning.plan_provision(self.site, lease_id, image=image)

    def provision(
        self,
        lease_id: str,
        *,
        image: str,
        ssh_keys: Sequence[str],
        wait: bool = True,
        progress: Progress = _quiet,
    ) -> LeaseView:
        """Images, connects and boots the waiting nodes of a lease; `Failed` says which did not come up.

        `ssh_keys` are public keys for root.  The image's digest is checked before anything starts,
        and by each node over what it received.
        """
        with self._carried_on(wait=wait):
            leasing.provision(self.site, lease_id, image=image, ssh_keys=ssh_keys, actor=self.actor)
            if wait:
                self._wait_lease(lease_id, progress)
        lease = self.lease_of(lease_id)
        if wait and lease.state != "active":
            raise Failed(
                f"lease {lease_id} is {lease.state} after provisioning",
                why=lease.problem or "",
                do=f"look at `infra-os nodes`, then provision again or `infra-os release {lease_id}`",
            )
        return lease

    def grow(self, lease_id: str, *, nodes: int) -> list[str]:
        """Adds nodes to a lease, all or none; `provision` brings them up."""
        return leasing.grow(self.site, lease_id, nodes=nodes, actor=self.actor)

    def shrink(self, lease_id: str, node_ids: Sequence[str], *, wait: bool = True) -> None:
        """Gives some nodes of a lease back, isolated and erased."""
        with self._carried_on(wait=wait):
            leasing.shrink(self.site, lease_id, node_ids, actor=self.actor)
            if wait:
                self._wait(node_ids, IN_WORK, _quiet)

    def release(
        self,
        lease_id: str,
        *,
        wait: bool = True,
        timeout_s: float | None = None,
        progress: Progress = _quiet,
    ) -> LeaseView:
        """Gives a lease back: its nodes are isolated first, then erased, then available.

        Isolating never gives up: a fabric that does not answer is asked until it does.  With
        `timeout_s` the waiting for that ends in `Unavailable`; the lease is being released all the same.
        """
        if timeout_s is not None and not timeout_s > 0:
            raise BadInput("must be more than 0", field="timeout")
        with self._carried_on(wait=wait):
            nodes = [node.id for node in self.nodes(lease=lease_id)]
            leasing.release(self.site, lease_id, actor=self.actor)
            if wait and not self._wait(nodes, IN_WORK, progress, timeout_s):
                left = [node for node in self.nodes() if node.id in nodes and node.state in IN_WORK]
                raise Unavailable(
                    f"lease {lease_id} is not released after {timeout_s:g} s",
                    why="; ".join(f"{node.id} is {node.state}: {node.problem or 'in work'}" for node in left),
                    do=f"mend what is named, then again: infra-os release {lease_id}",
                )
        return self.lease_of(lease_id)

    # ----------------------------------------------------------------------------- documents

    def inventory(self, tenant: str | None = None) -> NodeInventory:
        """`node-inventory/v1` of a tenant, or of the whole site."""
        return views.inventory(self.site, tenant=tenant, version=__version__)

    def meter(self, *, since: float = 0.0, until: float | None = None) -> list[dict[str, Any]]:
        """Node-seconds by tenant and state; times in seconds since 1970."""
        return views.meter(self.site, since=since, until=until)

    def audit(self, *, last: int = 100) -> list[dict[str, Any]]:
        """Who did what."""
        return views.audit(self.site, last=last)

    def add_image(self, name: str, path: Path, *, format: str, digest: str | None = None) -> Image:  # noqa: A002
        """Takes an image in; with `digest` its bytes must be those."""
        if format not in ("tar.zst", "raw.zst"):
            raise BadInput(f"{format!r} is not tar.zst or raw.zst", field="format")
        if path.is_file():
            with path.open("rb") as stream:
                start = stream.read(len(ZSTD_MAGIC))
            if start != ZSTD_MAGIC:
                raise BadInput(
                    f"{path.name} is not compressed by zstd", field="path", do="zstd FILE, then again"
                )
        return self.images.add(name, path, format=format, digest=digest)  # type: ignore[arg-type]

    def build_image(self, kind: str = "root", *, name: str | None = None, say: Say = _silent) -> Image:
        """Builds Debian and takes it in: a `root`, or a `disk` for machines with firmware.

        The first time takes minutes and says so through `say`; later ones find it in the cache.
        """
        from .backends.images import build_debian, build_debian_disk

        if kind not in ("root", "disk"):
            raise BadInput(f"{kind!r} is not root or disk", field="kind")
        build, usual = (build_debian, "debian") if kind == "root" else (build_debian_disk, "debian-disk")
        return build(self.images, name or usual, say=say)

    # ------------------------------------------------------------------------------- waiting

    @contextlib.contextmanager
    def _carried_on(self, *, wait: bool) -> Iterator[None]:
        if not wait:
            yield
            return
        with self.serving():
            yield

    def _wait(
        self,
        node_ids: Sequence[str],
        states: frozenset[str] | set[str],
        progress: Progress,
        timeout_s: float | None = None,
    ) -> bool:
        """Waits until none of the nodes is in these states; False when that took too long."""
        wanted = set(node_ids)
        end = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            nodes = [node for node in self.nodes() if node.id in wanted]
            progress(nodes)
            if not any(node.state in states for node in nodes):
                return True
            if time.monotonic() >= end:
                return False
            self._serving.ensure()  # takes over when the process that served has died
            time.sleep(POLL_S)

    def _wait_lease(self, lease_id: str, progress: Progress) -> None:
        while True:
            progress(self.nodes(lease=lease_id))
            if self.lease_of(lease_id).state != "provisioning":
                return
            self._serving.ensure()
            time.sleep(POLL_S)


def _login() -> str:
    """The user's name, or the number where it has none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
