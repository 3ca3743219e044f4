"""Bridges as switches: the conformance kit, and isolation as packets see it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from l0_infra_os._kit.problems import BadInput, Conflict, Unavailable
from l0_infra_os.backends.fabric import open_fabric
from l0_infra_os.backends.programs import batch
from l0_infra_os.lab import Lab
from l0_infra_os.lab.network import enter
from l0_infra_os.lab.plan import Kind, Machine
from l0_infra_os.ports import Fabric, Segment
from l0_infra_os.testing import FabricContract

pytestmark = pytest.mark.real
RED = Segment("red-compute", "compute", 11, "red")
BLUE = Segment("blue-compute", "compute", 12, "blue")


@pytest.fixture(scope="module")
def lab(lab_folder: Path, need: Callable[[Kind], None]) -> Lab:
    need("nspawn")
    return Lab(lab_folder).up(machines=5, kind="nspawn", attached=True)


@pytest.fixture
def fabric(lab: Lab) -> Fabric:
    return lab.fabric()


def mac(machine: Machine, nic: str = "cmp0") -> str:
    return next(port.mac for port in machine.ports if port.nic == nic)


class TestBridges(FabricContract):
    @pytest.fixture
    def macs(self, lab: Lab) -> list[str]:
        return [mac(machine) for machine in lab.plan.machines[:3]]


@pytest.fixture
def addressed(lab: Lab, fabric: Fabric) -> Iterator[Lab]:
    """Every NIC has an address in one network for all tenants: only the switches can keep them apart."""
    for machine in lab.plan.machines:
        commands = []
        for number, port in enumerate(machine.ports):
            address = f"10.71.{lab.plan.subnet}" if number == 0 else f"10.{71 + number}.0"
            commands.append(f"address replace {address}.{10 + machine.number}/24 dev {port.nic}")
            commands.append(f"link set dev {port.nic} up")
        commands.append(f"route replace default via {lab.controller}")
        batch(commands, netns=lab.plan.netns(machine))
    yield lab
    fabric.apply({port.mac: None for m in lab.plan.machines for port in m.ports[1:]})


def reaches(lab: Lab, machine: Machine, address: str, *, count: int = 2) -> int:
    """How many of `count` pings are answered."""
    ping = ["ping", "-n", "-c", str(count), "-i", "0.05", "-W", "1", address]
    done = subprocess.run([*enter(lab.plan.netns(machine)), *ping], capture_output=True, text=True)
    return next((int(line.split()[3]) for line in done.stdout.splitlines() if "transmitted" in line), 0)


def test_a_tenants_machines_reach_each_other_across_leaves_and_nobody_else(
    addressed: Lab, fabric: Fabric
) -> None:
    m1, m2, m3, m4, m5 = addressed.plan.machines
    fabric.apply({mac(m1): RED, mac(m3): RED, mac(m2): BLUE, mac(m4): BLUE})
    assert (m1.leaf, m3.leaf) == ("leaf1", "leaf2")
    assert reaches(addressed, m1, "10.72.0.13") == 2
    assert reaches(addressed, m2, "10.72.0.14") == 2
    for source, target in ((m1, 12), (m1, 14), (m3, 12), (m2, 13), (m5, 11), (m1, 15)):
        assert reaches(addressed, source, f"10.72.0.{target}") == 0, (source.name, target)


def test_a_machine_that_leaves_is_cut_off_and_one_that_comes_is_let_in(
    addressed: Lab, fabric: Fabric
) -> None:
    m1, m2, m3, *_ = addressed.plan.machines
    fabric.apply({mac(m1): RED, mac(m2): RED})
    assert reaches(addressed, m1, "10.72.0.12") == 2
    fabric.apply({mac(m2): None, mac(m3): RED})
    assert reaches(addressed, m1, "10.72.0.12") == 0
    assert reaches(addressed, m1, "10.72.0.13") == 2


def test_storage_is_a_segment_of_its_own(addressed: Lab, fabric: Fabric) -> None:
    m1, m2, m3, *_ = addressed.plan.machines
    storage = Segment("red-storage", "storage", 13, "red")
    fabric.apply({mac(m1, "sto0"): storage, mac(m3, "sto0"): storage})
    assert reaches(addressed, m1, "10.73.0.13") == 2
    assert reaches(addressed, m2, "10.73.0.13") == 0
    with pytest.raises(BadInput, match="cabled"):
        fabric.apply({mac(m1, "sto0"): RED})


def test_management_reaches_the_controller_and_no_other_machine(addressed: Lab) -> None:
    m1 = addressed.plan.machines[0]
    network = f"10.71.{addressed.plan.subnet}"
    assert reaches(addressed, m1, addressed.controller) == 2
    assert reaches(addressed, m1, f"{network}.12") == 0
    # A frame to the controller's MAC with the neighbour's address, for the host to send back.
    via = f"route replace {network}.12/32 via {addressed.controller} dev mgmt0"
    batch([via], netns=addressed.plan.netns(m1))
    assert reaches(addressed, m1, f"{network}.12") == 0
    # A borrowed MAC gets nowhere.
    batch(["link set dev mgmt0 address 02:00:00:00:00:99"], netns=addressed.plan.netns(m1))
    assert reaches(addressed, m1, addressed.controller) == 0
    batch([f"link set dev mgmt0 address {m1.management.mac}"], netns=addressed.plan.netns(m1))
    assert reaches(addressed, m1, addressed.controller) == 2


def test_a_number_serves_one_segment_at_a_time(lab: Lab, fabric: Fabric) -> None:
    m1, m2, *_ = lab.plan.machines
    again = Segment("green-compute", "compute", RED.number, "green")
    fabric.apply({mac(m1): RED})
    with pytest.raises(Conflict, match="in use"):
        fabric.apply({mac(m2): again})
    assert fabric.observe([mac(m2)]) == {mac(m2): None}
    fabric.apply({mac(m1): None})
    fabric.apply({mac(m2): again})
    assert fabric.observe([mac(m1), mac(m2)]) == {mac(m1): None, mac(m2): "green-compute"}
    fabric.apply({mac(m2): None})


def test_faults_of_cables_are_felt(addressed: Lab, fabric: Fabric) -> None:
    m1, m2, *_ = addressed.plan.machines
    fabric.apply({mac(m1): RED, mac(m2): RED})
    addressed.inject("m2", "link-down")
    assert reaches(addressed, m1, "10.72.0.12") == 0
    addressed.clear("m2")
    assert reaches(addressed, m1, "10.72.0.12") == 2
    addressed.inject("m2", "packet-loss", value=50)
    # 25 % of the round trips are left; 3 standard deviations of 100 are 13.
    assert 8 <= reaches(addressed, m1, "10.72.0.12", count=100) <= 42
    addressed.clear("m2", "packet-loss")
    assert reaches(addressed, m1, "10.72.0.12", count=20) == 20


def test_a_slow_link_is_slow_both_ways(addressed: Lab, fabric: Fabric) -> None:
    m1, m2, *_ = addressed.plan.machines
    fabric.apply({mac(m1): RED, mac(m2): RED})
    addressed.inject("m2", "slow-link", value=8)  # 1 MB/s
    try:
        for source, target in ((m1, m2), (m2, m1)):
            # 3 s; the kernel's limiter lets one second's worth through at once.
            assert 1.5 < seconds_for(addressed, source, target, 3_000_000) < 12.0
    finally:
        addressed.clear("m2")
    assert seconds_for(addressed, m1, m2, 3_000_000) < 2.0


RECEIVE = """
import socket, time
with socket.create_server(("", 5001)) as server:
    print("ready", flush=True)
    connection, _ = server.accept()
    started, received = time.monotonic(), 0
    while piece := connection.recv(1 << 16):
        received += len(piece)
    print(time.monotonic() - started, received)
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 5001), timeout=30) as connection:
    connection.sendall(bytes(int(sys.argv[2])))
"""


def seconds_for(lab: Lab, source: Machine, target: Machine, size: int) -> float:
    inside = [*enter(lab.plan.netns(target)), "python3", "-c", RECEIVE]
    with subprocess.Popen(inside, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        send = [
            *enter(lab.plan.netns(source)),
            "python3",
            "-c",
            SEND,
            f"10.72.0.{10 + target.number}",
            str(size),
        ]
        subprocess.run(send, check=True, timeout=40)
        seconds, received = receiver.stdout.readline().split()
    assert int(received) == size
    return float(seconds)


def test_without_a_lab_there_are_no_switches(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no lab is up"):
        open_fabric(tmp_path)
