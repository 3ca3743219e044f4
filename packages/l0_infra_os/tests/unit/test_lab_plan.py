"""A lab's plan: identities that never collide, names that the kernel takes, leaves with neighbours."""

from __future__ import annotations

import ipaddress
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from l0_infra_os.lab.plan import Hardware, Kind, Plan, lab_id, make_plan

HARDWARE = Hardware(cpu_cores=2, cpu_model="model", memory_bytes=1 << 30, disk_bytes=1 << 30)


def plan_of(folder: str, machines: int, leaves: int, kind: Kind = "nspawn") -> Plan:
    return make_plan(
        Path(folder),
        machines=machines,
        kind=kind,
        leaves=leaves,
        hardware=HARDWARE,
        bmc_ports=range(8101, 8101 + machines),
        subnet=7,
    )


def test_five_machines_fill_two_leaves_in_pairs() -> None:
    leaves = [machine.leaf for machine in plan_of("/lab", 5, 2).machines]
    assert leaves == ["leaf1", "leaf1", "leaf2", "leaf2", "leaf1"]


@given(st.integers(1, 240), st.integers(1, 16), st.sampled_from(["/a", "/b/c", "/tmp/x y"]))
def test_every_identity_is_one_machines_only(machines: int, leaves: int, folder: str) -> None:
    plan = plan_of(folder, machines, leaves)
    ports = [port for machine in plan.machines for port in machine.ports]
    for values in (
        [port.mac for port in ports],
        [port.interface for port in ports],
        [machine.uuid for machine in plan.machines],
        [machine.serial for machine in plan.machines],
        [machine.bmc_port for machine in plan.machines],
    ):
        assert len(set(values)) == len(values)
    # IFNAMSIZ is 16 with the closing zero (linux/if.h); bit 1 of a MAC's first byte: local (IEEE 802).
    assert all(len(port.interface) <= 15 for port in ports)
    assert len(plan.host_interface) <= 15
    assert all(int(port.mac[:2], 16) & 0b11 == 0b10 for port in ports)


@given(st.integers(4, 60), st.integers(1, 6))
def test_leaves_differ_by_two_machines_at_most(machines: int, leaves: int) -> None:
    counts = Counter(machine.leaf for machine in plan_of("/lab", machines, leaves).machines)
    if machines >= 2 * leaves:
        assert len(counts) == leaves
        assert max(counts.values()) - min(counts.values()) <= 2


def test_two_folders_are_two_labs_and_a_folder_keeps_its_identities(tmp_path: Path) -> None:
    one, other = plan_of(str(tmp_path / "a"), 3, 2), plan_of(str(tmp_path / "b"), 3, 2)
    assert one.id == lab_id(tmp_path / "x" / ".." / "a")
    macs = {port.mac for plan in (one, other) for machine in plan.machines for port in machine.ports}
    assert len(macs) == 18
    assert plan_of(str(tmp_path / "a"), 3, 2) == one


def test_the_controller_stands_in_the_management_network() -> None:
    plan = plan_of("/lab", 1, 1)
    assert ipaddress.ip_address(plan.controller) in ipaddress.ip_network(plan.network)
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
