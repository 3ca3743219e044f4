"""A site that crashes between any two steps: no node in two leases, no quota exceeded, no half lease.

The machines here are a model of their own (power, boot override, disk), so that hypothesis can stop
the world before and after every single thing that a step does.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from l0_infra_os._kit.problems import Conflict, Problem, Unavailable
from l0_infra_os.core.lifecycle import CONNECTED, HELD, IN_FLIGHT, NodeState
from l0_infra_os.ports import BmcNic, BootOverride, Credentials, PowerAction, PowerState, SystemInventory
from l0_infra_os.service import enrolment, leasing, operations, orders, views
from l0_infra_os.service.site import Site, open_site
from l0_infra_os.service.steps import advance
from l0_infra_os.settings import Settings
from l0_infra_os.testing import MemoryFabric

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFarm"
QUOTA = 3


class Crash(BaseException):
    """The process is gone: nothing may catch this."""


class Room:
    """Four machines; `fuse` counts down what is done to them and then crashes the site."""

    def __init__(self) -> None:
        self.machines = {f"bmc-{number}": Model(number, self) for number in range(4)}
        self.fuse: int | None = None

    def burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.fuse = None
                raise Crash

    def connect(self, address: str, _credentials: Credentials) -> Model:
        return self.machines[address]

    def close(self) -> None:
        """Sessions are not part of this model."""


class Model:
    """One machine behind its BMC."""

    def __init__(self, number: int, room: Room) -> None:
        self.number, self.room = number, room
        self.on, self.target, self.running = False, "disk", ""
        self.disk: dict[str, Any] | None = None
        self.data_of: str | None = None
        self.dead = False

    @property
    def mac(self) -> str:
        return f"02:00:00:00:00:{self.number:02x}"

    def inventory(self) -> SystemInventory:
        macs = (self.mac, f"02:00:01:00:00:{self.number:02x}", f"02:00:02:00:00:{self.number:02x}")
        return SystemInventory(
            uuid=f"u{self.number}", serial=f"s{self.number}", name=f"m{self.number}",
            nics=tuple(BmcNic(mac) for mac in macs),
        )  # fmt: skip

    def _touch(self) -> None:
        self.room.burn()
        if self.dead:
            raise Unavailable("the BMC does not answer")

    def power(self) -> PowerState:
        self._touch()
        return "on" if self.on else "off"

    def set_power(self, action: PowerAction) -> None:
        self._touch()
        if action == "off":
            self.on, self.running = False, ""
        elif not self.on:
            self.on, self.running = True, "firmware" if self.target == "network" else "system"
        self.room.burn()

    def set_boot(self, override: BootOverride) -> PowerState:
        self._touch()
        self.target = override.target
        self.room.burn()
        return "on" if self.on else "off"

    def close(self) -> None:
        """Nothing to end."""


class Images:
    """One image, always whole."""

    digest = f"sha256:{hashlib.sha256(b'image').hexdigest()}"

    def get(self, _name: str) -> Any:
        from l0_infra_os.ports import Image

        return Image("debian", self.digest, "tar.zst", 5)

    def verify(self, _digest: str) -> None:
        """Its bytes are what they are."""


class Site4(RuleBasedStateMachine):
    """Commands, steps, machines that report, crashes: in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.room = Room()
        self.fabric = MemoryFabric()
        self.now = 1000.0
        self.site = self.open()

    def open(self) -> Site:
        config = Settings.load(
            home=self.folder.name,
            lab_dir=Path(self.folder.name),
            attempts=2,
            retry_s=1.0,
            boot_timeout_s=50.0,
        )
        parts = {"connector": self.room, "given_fabric": self.fabric, "given_images": Images()}
        return open_site(config, clock=lambda: self.now, boot_url="http://x/boot", **parts)

    def teardown(self) -> None:
        self.site.close()
        self.folder.cleanup()

    def crashing(self, work: Callable[[], object]) -> None:
        """Runs work; a crash takes the process with all its memory, the database stays."""
        try:
            work()
        except Crash:
            self.site.store.close()
            self.site = self.open()
        except Problem:
            pass  # refused: the invariants say whether it changed anything half
        finally:
            self.room.fuse = None

    @initialize()
    def begin(self) -> None:
        credentials = Credentials("u", "p")
        enrolment.enroll(self.site, list(self.room.machines), credentials, actor="t")
        for tenant in ("red", "blue"):
            leasing.create_tenant(self.site, tenant, quota_nodes=QUOTA, actor="t")
        operations.inspect(self.site, None, actor="t")

    @rule(fuse=st.none() | st.integers(0, 3), pick=st.integers(0, 3))
    def step(self, fuse: int | None, pick: int) -> None:
        with self.site.store.begin() as tx:
            due = tx.due()
        if due:
            node_id, version = due[pick % len(due)]
            self.room.fuse = fuse
            self.crashing(lambda: advance(self.site, node_id, version))

    @rule(number=st.integers(0, 3), twice=st.booleans())
    def machine_acts(self, number: int, twice: bool) -> None:
        """What a machine that is on does: its order, or its system's check-in."""
        model = self.room.machines[f"bmc-{number}"]
        if not model.on:
            return
        for _ in range(2 if twice else 1):
            self.crashing(lambda: self.act(model))

    def act(self, model: Model) -> None:
        order = {"action": "local"} if model.target == "disk" else orders.order(self.site, model.mac)
        if order["action"] == "local":
            if model.disk is not None:
                model.running = "system"
                orders.take_check_in(self.site, model.mac, orders.CheckIn(token=model.disk["token"]))
            return
        model.running = "agent"
        token = order["token"]
        if order["action"] == "inspect":
            facts = {
                "token": token, "arch": "x86_64", "cpu": {"cores": 1}, "memory_bytes": 2**30,
                "nics": [
                    {"name": kind, "mac": f"02:00:0{index}:00:00:{model.number:02x}", "segment": kind,
                     "lldp": {"leaf": f"leaf{model.number % 2}", "rack": "r"}}
                    for index, kind in enumerate(("management", "compute", "storage"))
                ],
            }  # fmt: skip
            orders.take_facts(self.site, model.mac, orders.Facts.model_validate(facts))
        elif order["action"] == "deploy":
            model.disk, model.data_of = order, order["storage"]
            digest = Images.digest.removeprefix("sha256:")
            orders.take_deployed(self.site, model.mac, orders.Deployed(token=token, sha256=digest, bytes=5))
        else:
            model.disk = model.data_of = None
            report = orders.Erased(token=token, method="overwrite", verified=True)
            orders.take_erased(self.site, model.mac, report)

    @rule(tenant=st.sampled_from(["red", "blue"]), nodes=st.integers(1, 4), spares=st.integers(0, 1))
    def lease(self, tenant: str, nodes: int, spares: int) -> None:
        self.crashing(lambda: leasing.lease(self.site, tenant, nodes=nodes, spares=spares, actor="t"))

    def a_lease(self, pick: int) -> str | None:
        rows = views.leases(self.site)
        return rows[pick % len(rows)].id if rows else None

    @rule(pick=st.integers(0, 5))
    def provision(self, pick: int) -> None:
        if lease := self.a_lease(pick):
            self.crashing(
                lambda: leasing.provision(self.site, lease, image="debian", ssh_keys=[KEY], actor="t")
            )

    @rule(pick=st.integers(0, 5))
    def release(self, pick: int) -> None:
        if lease := self.a_lease(pick):
            self.crashing(lambda: leasing.release(self.site, lease, actor="t"))

    @rule(pick=st.integers(0, 5), nodes=st.integers(1, 2))
    def grow(self, pick: int, nodes: int) -> None:
        if lease := self.a_lease(pick):
            self.crashing(lambda: leasing.grow(self.site, lease, nodes=nodes, actor="t"))

    @rule(pick=st.integers(0, 5), which=st.integers(0, 3))
    def shrink(self, pick: int, which: int) -> None:
        if lease := self.a_lease(pick):
            members = views.lease(self.site, lease).members
            if members:
                node = members[which % len(members)]
                self.crashing(lambda: leasing.shrink(self.site, lease, [node], actor="t"))

    @rule(number=st.integers(0, 3))
    def quarantine(self, number: int) -> None:
        self.crashing(lambda: operations.quarantine(self.site, f"m{number}", reason="x", actor="t"))

    @rule(number=st.integers(0, 3))
    def repair(self, number: int) -> None:
        self.crashing(lambda: operations.repair(self.site, f"m{number}", actor="t"))

    @rule(seconds=st.sampled_from([0.5, 5.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(number=st.integers(0, 3), dead=st.booleans())
    def bmc_dies_or_returns(self, number: int, dead: bool) -> None:
        self.room.machines[f"bmc-{number}"].dead = dead

    @precondition(lambda self: not self.fabric.broken)
    @rule()
    def fabric_goes(self) -> None:
        self.fabric.broken = True

    @precondition(lambda self: self.fabric.broken)
    @rule()
    def fabric_returns(self) -> None:
        self.fabric.broken = False

    # ------------------------------------------------------------------------ what must hold

    @invariant()
    def leases_are_whole_and_within_the_quota(self) -> None:
        nodes = views.nodes(self.site)
        open_leases = {row.id: row for row in views.leases(self.site)}
        for tenant in ("red", "blue"):
            held = [node for node in nodes if node.tenant == tenant and node.state in HELD]
            assert len(held) <= QUOTA
        for row in open_leases.values():
            mine = [node for node in nodes if node.lease == row.id]
            held = [node for node in mine if node.state in HELD]
            if row.state in ("reserved", "provisioning", "active"):
                missing = row.nodes + row.spares - len(held)
                assert missing <= 0 or row.problem, f"{row} lost {missing} nodes and does not say why"
            if row.state == "active":
                assert not row.problem or len(held) == row.nodes + row.spares
        for node in nodes:
            assert (node.state in HELD) <= (node.lease in open_leases)

    @invariant()
    def a_tenants_segment_holds_only_its_own_nodes(self) -> None:
        tenants = {node.id: node for node in views.nodes(self.site)}
        for machine in self.room.machines.values():
            name = self.fabric._segments.get(f"02:00:01:00:00:{machine.number:02x}")
            node = tenants.get(f"m{machine.number}")
            if name and node and node.state in CONNECTED:
                assert name == f"{node.tenant}-compute"
            if node and node.state in ("available", "leased", "quarantined", "erasing", "deploying"):
                assert name is None

    @invariant()
    def no_tenant_finds_anothers_data_or_system(self) -> None:
        for node in views.nodes(self.site):
            model = self.room.machines[f"bmc-{node.id[1:]}"]
            if node.state == "available":
                assert model.data_of is None
                assert not model.on
            if node.state in ("attaching", "booting", "active"):
                assert model.data_of == node.tenant

    @invariant()
    def each_node_is_in_one_state_at_a_time(self) -> None:
        for node in views.nodes(self.site):
            rows = views.timeline(self.site, node.id)
            assert [row["end"] for row in rows[:-1]] == [row["start"] for row in rows[1:]]
            assert (rows[-1]["state"], rows[-1]["end"]) == (node.state, None)


def test_a_site_that_crashes_between_any_two_steps() -> None:
    run_state_machine_as_test(
        Site4,
        settings=hypothesis_settings(
            max_examples=200 if os.environ.get("OGAI_SOAK") == "1" else 6, stateful_step_count=50
        ),
    )


def test_left_alone_everything_comes_to_rest() -> None:
    """After any start, steps and reports alone bring every node to a stable state."""
    world = Site4()
    world.begin()
    try:
        for command in (
            lambda: None,
            lambda: leasing.lease(world.site, "red", nodes=2, spares=1, actor="t"),
            lambda: leasing.provision(
                world.site, views.leases(world.site)[0].id, image="debian", ssh_keys=[KEY], actor="t"
            ),
            lambda: leasing.release(world.site, views.leases(world.site)[0].id, actor="t"),
        ):
            command()
            for round_ in range(200):
                world.step(round_ % 3 if round_ < 40 else None, round_)
                world.machine_acts(round_ % 4, twice=False)
                world.now += 1
                world.leases_are_whole_and_within_the_quota()
                world.no_tenant_finds_anothers_data_or_system()
                in_flight = [node for node in views.nodes(world.site) if NodeState(node.state) in IN_FLIGHT]
                if round_ >= 40 and not in_flight:
                    break
            assert not in_flight
        assert {node.state for node in views.nodes(world.site)} == {"available"}
    finally:
        world.teardown()


def test_parallel_leases_never_exceed_the_quota_or_share_a_node() -> None:
    """Many callers at once, each with a connection of its own."""
    from concurrent.futures import ThreadPoolExecutor

    world = Site4()
    world.begin()
    for round_ in range(60):
        world.step(None, round_)
        world.machine_acts(round_ % 4, twice=False)
        world.now += 1

    def ask(number: int) -> str | None:
        try:
            return leasing.lease(world.site, ("red", "blue")[number % 2], nodes=1, actor="t")
        except Conflict:
            return None

    with ThreadPoolExecutor(8) as pool:
        got = [lease for lease in pool.map(ask, range(16)) if lease]
    assert len(got) == 4
    nodes = [views.lease(world.site, lease).members[0] for lease in got]
    assert len(set(nodes)) == 4
    world.leases_are_whole_and_within_the_quota()
    world.teardown()
