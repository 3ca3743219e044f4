"""Machines that boot Debian over the network and from their disk, powered by real Redfish."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from l0_infra_os.backends.images import build_debian_root
from l0_infra_os.lab import Lab, cgroups, network
from l0_infra_os.lab.cleaning import processes_of
from l0_infra_os.lab.folder import read_entry
from l0_infra_os.lab.host import python_mounts
from l0_infra_os.lab.plan import Kind, Machine
from l0_infra_os.testing.bench import Orders, Redfish

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


@dataclass
class Room:
    """A lab with its operator's tools."""

    lab: Lab
    orders: Orders
    redfish: Redfish
    image: Path
    key: Path

    @property
    def machines(self) -> tuple[Machine, ...]:
        return self.lab.plan.machines

    @property
    def public_key(self) -> str:
        return self.key.with_suffix(".pub").read_text("utf-8")

    def ssh(self, machine: Machine, command: str, *, check: bool = True) -> str:
        """Runs a command on the machine with the host key that it told at its check-in."""
        options = [
            "BatchMode=yes",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "ConnectTimeout=5",
        ]
        flags = [word for option in options for word in ("-o", option)]
        target = f"root@{self.orders.address(machine)}"
        done = subprocess.run(
            ["ssh", "-q", "-i", str(self.key), *flags, target, command], capture_output=True, text=True
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def deploy(self, machines: Sequence[Machine], *, tenant: str = "red") -> None:
        for machine in machines:
            self.orders.give_deploy(machine, self.image, [self.public_key], tenant=tenant)
            self.redfish.power_on(machine, "Pxe")
        self.orders.wait("deployed", *machines, patience_s=120)
        for machine in machines:
            self.redfish.reset(machine, "ForceOff")
            self.redfish.wait_for(machine, "Off")

    def start(self, machines: Sequence[Machine]) -> list[dict[str, object]]:
        for machine in machines:
            self.redfish.power_on(machine, "Hdd")
        return self.orders.wait("checkin", *machines, patience_s=90)


@pytest.fixture(scope="module")
def room(lab_folder: Path, ssh_key: Path, need: Callable[[Kind], None]) -> Iterator[Room]:
    need("nspawn")
    if shutil.which("mmdebstrap") is None:
        pytest.skip("needs mmdebstrap: apt-get install -y mmdebstrap")
    image = build_debian_root()
    storage = lab_folder.parent / "storage"
    storage.mkdir()
    lab = Lab(lab_folder).up(
        machines=5, kind="nspawn", mounts=python_mounts(), storage=storage, attached=True
    )
    orders = Orders(lab)
    yield Room(lab, orders, Redfish(lab), image, ssh_key)
    orders.close()


@pytest.fixture(scope="module")
def four(room: Room) -> tuple[Machine, ...]:
    """Four machines with Debian, up."""
    machines = room.machines[:4]
    room.deploy(machines[:2], tenant="red")
    room.deploy(machines[2:], tenant="blue")
    reports = room.start(machines)
    for machine, report in zip(machines, reports, strict=True):
        assert report["hostname"] == f"node-{machine.name}"
        assert report["addresses"] == {
            port.segment: room.orders.address(machine, port.segment) for port in machine.ports
        }
    return machines


def test_four_machines_answer_ssh_with_a_real_system(room: Room, four: tuple[Machine, ...]) -> None:
    for machine in four:
        assert room.ssh(machine, "hostname") == f"node-{machine.name}"
        assert room.ssh(machine, "cat /proc/1/comm") == "systemd"
        # `wait` also covers units that are still starting; a failed unit would make it "degraded".
        assert room.ssh(machine, "systemctl is-system-running --wait") == "running"
    keys = {room.ssh(machine, "cat /etc/ssh/ssh_host_ed25519_key.pub") for machine in four}
    ids = {room.ssh(machine, "cat /etc/machine-id") for machine in four}
    assert (len(keys), len(ids)) == (4, 4), "the image has no identity of its own"


def test_the_shared_python_environment_works_there_also_for_users(
    room: Room, four: tuple[Machine, ...]
) -> None:
    command = f'{sys.executable} -c "import pydantic, sys; print(sys.prefix)"'
    assert room.ssh(four[0], command) == sys.prefix
    room.ssh(four[0], "useradd -m worker")
    assert room.ssh(four[0], f"su worker -c '{command}'") == sys.prefix
    assert room.ssh(four[0], f"touch {sys.prefix}/x 2>&1", check=False).endswith("Read-only file system")


def test_storage_is_shared_in_a_tenant_and_hidden_from_others(room: Room, four: tuple[Machine, ...]) -> None:
    room.ssh(four[0], "echo data > /srv/storage/file")
    assert room.ssh(four[1], "cat /srv/storage/file") == "data"
    assert room.ssh(four[2], "ls /srv/storage") == ""
    share = room.lab.plan.storage
    assert share is not None
    assert (share / "red" / "file").read_text() == "data\n"


def test_power_off_through_redfish_ends_the_body(room: Room, four: tuple[Machine, ...]) -> None:
    machine = four[3]
    pid = next(row["pid"] for row in room.lab.status() if row["name"] == machine.name)
    room.ssh(machine, "echo kept > /root/kept; sync")
    room.redfish.reset(machine, "ForceOff")
    room.redfish.wait_for(machine, "Off")
    assert not Path(f"/proc/{pid}").exists()
    assert network.processes_in(room.lab.plan.netns(machine)) == []
    address = room.orders.address(machine)
    ping = subprocess.run(["ping", "-c", "1", "-W", "1", address], capture_output=True)
    assert ping.returncode != 0, "a machine without power has no address"
    assert cgroups.processes(room.lab.id, machine.name) == []
    room.start([machine])
    assert room.ssh(machine, "cat /root/kept") == "kept", "a disk outlives its power"


def test_a_system_that_restarts_itself_comes_back(room: Room, four: tuple[Machine, ...]) -> None:
    before = room.ssh(four[2], "uptime -s; cat /proc/1/sched | head -n 1")
    room.ssh(four[2], "systemctl --no-block reboot")
    room.orders.wait("checkin", four[2])
    assert room.ssh(four[2], "hostname") == "node-m3"
    assert before
    assert room.redfish.system(four[2])["PowerState"] == "On"


def test_a_system_that_shuts_down_powers_off(room: Room, four: tuple[Machine, ...]) -> None:
    room.redfish.reset(four[1], "GracefulShutdown")
    room.redfish.wait_for(four[1], "Off")
    room.start([four[1]])
    room.ssh(four[1], "systemctl --no-block poweroff")
    room.redfish.wait_for(four[1], "Off")
    room.start([four[1]])


def test_power_loss_is_told_by_the_bmc(room: Room, four: tuple[Machine, ...]) -> None:
    room.lab.inject(four[0].name, "power-loss")
    room.redfish.wait_for(four[0], "Off")
    room.start([four[0]])


def test_an_image_with_a_wrong_digest_is_not_booted(room: Room) -> None:
    machine = room.machines[4]
    room.orders.give_deploy(machine, room.image, [], sha256="0" * 64)
    room.redfish.power_on(machine, "Pxe")
    (failed,) = room.orders.wait("failed", machine)
    assert failed["reason"] == "digest"
    assert "0" * 64 in failed["detail"]
    assert not any(name == "deployed" for _, name, _ in room.orders.reports)
    folder = room.lab.folder.machine(machine)
    assert not (folder / "disk").exists()
    assert not (folder / "incoming").exists()
    room.redfish.reset(machine, "ForceOff")
    room.redfish.wait_for(machine, "Off")
    room.redfish.power_on(machine, "Hdd")
    time.sleep(0.3)
    assert [row["stage"] for row in room.lab.status()][4] == "no bootable device"
    room.redfish.reset(machine, "ForceOff")
    room.redfish.wait_for(machine, "Off")


def test_an_erased_disk_is_empty(room: Room) -> None:
    machine = room.machines[4]
    room.deploy([machine])
    folder = room.lab.folder.machine(machine)
    assert (folder / "disk" / "upper" / "etc" / "hostname").exists()
    room.orders.give(machine, "erase")
    room.redfish.power_on(machine, "Pxe")
    (erased,) = room.orders.wait("erased", machine)
    assert erased["verified"] is True
    assert erased["bytes"] > 0
    room.redfish.wait_for(machine, "Off")
    assert not list(folder.glob("disk*"))


def leftovers(lab: Lab) -> dict[str, object]:
    """Everything of a lab that can be found on the machine."""
    mounts = Path("/proc/self/mountinfo").read_text("utf-8")
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    return {
        "processes": processes_of(lab.id),
        "namespaces": [name for name in network.namespaces() if lab.id in name],
        "mounts": [line for line in mounts.splitlines() if str(lab.folder.path) in line or lab.id in line],
        "links": [line for line in links.splitlines() if lab.id in line],
        "groups": lab.id in cgroups.labs(),
        "containers": list(Path("/run/systemd/nspawn").glob(f"*/*{lab.id}*")),
        "register": read_entry(lab.id) is not None,
    }


NOTHING = {
    "processes": set(),
    "namespaces": [],
    "mounts": [],
    "links": [],
    "groups": False,
    "containers": [],
    "register": False,
}


@pytest.mark.parametrize("moment", ["deploying", "running"])
def test_kill_9_at_any_moment_leaves_nothing_after_clean(
    room: Room, tmp_path: Path, ssh_key: Path, moment: str
) -> None:
    lab = Lab(tmp_path / "doomed").up(machines=2, kind="nspawn")  # not attached: nobody else cleans
    try:
        orders = Orders(lab)
        doomed = Room(lab, orders, Redfish(lab), room.image, ssh_key)
        if moment == "running":
            doomed.deploy(doomed.machines)
            doomed.start(doomed.machines)
        else:
            for machine in doomed.machines:
                orders.give_deploy(machine, room.image, [])
                doomed.redfish.power_on(machine, "Pxe")
            time.sleep(0.6)
        orders.close()
        entry = read_entry(lab.id)
        assert entry is not None
        os.kill(entry.owner.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while processes_of(lab.id):  # bodies die with their keeper, before anybody cleans
            assert time.monotonic() < deadline, processes_of(lab.id)
            time.sleep(0.05)
        assert lab.id in Lab.clean()
        assert leftovers(lab) == NOTHING
        assert lab.id not in Lab.clean(), "once is enough"
        assert room.lab.status()[0]["power"] in ("on", "off"), "a living lab is left alone"
    finally:
        lab.down()
    assert not any((tmp_path / "doomed").iterdir())


def test_down_leaves_nothing(tmp_path: Path, room: Room, ssh_key: Path) -> None:
    lab = Lab(tmp_path / "short").up(machines=1, kind="nspawn", attached=True)
    orders = Orders(lab)
    short = Room(lab, orders, Redfish(lab), room.image, ssh_key)
    short.deploy(short.machines)
    short.start(short.machines)
    lab.down()
    orders.close()
    assert leftovers(lab) == NOTHING
    assert not any((tmp_path / "short").iterdir())
    lab.down()
