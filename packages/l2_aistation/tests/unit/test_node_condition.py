"""What a node says of itself, read from a /sys that the test lays out as the kernel documents it."""

from __future__ import annotations

from pathlib import Path

import pytest
from l2_aistation.core.events import Condition, NodeSeen, from_wire, to_wire
from l2_aistation.core.pool import AcceleratorFacts, NodeFacts, Pool
from l2_aistation.supervisor.condition import EVERY_S, ConditionWatch

HEX = "0123456789abcdef" * 4


class Machine:
    """A /sys with two Ethernet ports, an InfiniBand port and a memory controller."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.state, self.cache = folder / "sys", folder / "state", folder / "cache"
        self.cache.mkdir()
        for name in ("eth0", "eth1"):
            (self.sys / "class/net" / name / "device").mkdir(parents=True)
            self.ethernet(name, "up", "100000")
        (self.sys / "class/net/veth0").mkdir()
        self.write("class/net/veth0/operstate", "down")
        self.infiniband("4: ACTIVE", "400 Gb/sec (4X NDR)")
        self.write("devices/system/edac/mc/mc0/ue_count", "0")
        self.now = 0.0
        self.watch = self.restarted()

    def restarted(self, boot_id: str = "boot") -> ConditionWatch:
        return ConditionWatch(self.state, self.cache, boot_id, self.sys)

    def write(self, path: str, text: str) -> None:
        (self.sys / path).parent.mkdir(parents=True, exist_ok=True)
        (self.sys / path).write_text(text + "\n")

    def ethernet(self, name: str, state: str, speed: str) -> None:
        self.write(f"class/net/{name}/operstate", state)
        self.write(f"class/net/{name}/speed", speed)

    def infiniband(self, state: str, rate: str) -> None:
        self.write("class/infiniband/mlx5_0/ports/1/state", state)
        self.write("class/infiniband/mlx5_0/ports/1/rate", rate)

    def look(self) -> Condition:
        self.now += EVERY_S
        return self.watch.look(self.now)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_sound_node_says_nothing(machine: Machine) -> None:
    assert machine.look() == Condition()


def test_a_link_that_carries_less_than_before_is_weak(machine: Machine) -> None:
    machine.look()
    machine.ethernet("eth1", "down", "-1")
    machine.infiniband("4: ACTIVE", "200 Gb/sec (2X NDR)")
    assert machine.look().weak_links == ("eth1", "mlx5_0/1")
    machine.ethernet("eth1", "up", "100000")
    assert machine.look().weak_links == ("mlx5_0/1",)


def test_what_was_best_lasts_over_a_restart_of_the_agent_but_not_of_the_machine(machine: Machine) -> None:
    machine.look()
    machine.infiniband("1: DOWN", "400 Gb/sec (4X NDR)")
    machine.watch = machine.restarted()
    assert machine.look().weak_links == ("mlx5_0/1",)
    machine.watch = machine.restarted("another boot")
    assert machine.look().weak_links == ()


def test_a_port_that_never_was_up_is_no_fault(machine: Machine) -> None:
    machine.ethernet("eth1", "down", "-1")
    assert machine.look().weak_links == ()


def test_uncorrected_memory_errors_are_told(machine: Machine) -> None:
    machine.write("devices/system/edac/mc/mc0/ue_count", "2")
    assert machine.look().faults == ("memory: 2 uncorrected errors",)


def test_data_sets_are_told_by_their_digest_once_they_are_whole(machine: Machine) -> None:
    (machine.cache / f"sha256-{HEX}").mkdir()
    (machine.cache / f".sha256-{HEX[::-1]}.part").mkdir()
    (machine.cache / "notes.txt").touch()
    assert machine.look().data == (f"sha256:{HEX}",)


def test_it_looks_only_every_few_seconds(machine: Machine) -> None:
    first = machine.look()
    machine.ethernet("eth0", "down", "-1")
    assert machine.watch.look(machine.now + EVERY_S / 2) is first


def test_conditions_travel_and_unknown_members_are_dropped() -> None:
    beat = NodeSeen("n", 1.0, "b", (), Condition((f"sha256:{HEX}",), ("eth0",), ("memory",)))
    wire = to_wire(beat)
    wire["condition"]["colour"] = ["red"]
    assert from_wire(wire) == beat


def test_data_of_nodes_one_by_one() -> None:
    """The same marks as when they are said data set by data set; what nobody has is forgotten."""
    pool = Pool(NodeFacts(name, 1, 0, (AcceleratorFacts(0, "v", "m"),)) for name in ("a", "b"))
    assert pool.set_cached_on("a", {"x", "y"})
    assert pool.set_cached_on("b", {"x"})
    assert not pool.set_cached_on("b", {"x"})
    assert {name: mask.tolist() for name, mask in pool.cached.items()} == {
        "x": [True, True],
        "y": [True, False],
    }
    before = pool.cached["x"]
    assert pool.set_cached_on("a", set())
    assert before.tolist() == [True, True]  # copies of the pool keep what they saw
    assert {name: mask.tolist() for name, mask in pool.cached.items()} == {"x": [False, True]}
