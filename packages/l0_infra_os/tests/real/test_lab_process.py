"""A lab without root: real Redfish, machines that are plain processes, faults, and clean-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from l0_infra_os._kit.problems import BadInput, Conflict, Unavailable
from l0_infra_os.lab import Lab
from l0_infra_os.lab.cleaning import processes_of
from l0_infra_os.lab.folder import read_entry
from l0_infra_os.lab.plan import Kind
from l0_infra_os.ports import Segment
from l0_infra_os.testing.bench import Orders, Redfish

pytestmark = pytest.mark.real
Need = Callable[[Kind], None]


@pytest.fixture(scope="module")
def lab(lab_folder: Path, need: Need) -> Lab:
    need("process")
    return Lab(lab_folder).up(machines=3, kind="process", attached=True)


@pytest.fixture(scope="module")
def redfish(lab: Lab) -> Redfish:
    return Redfish(lab)


@pytest.fixture
def orders(lab: Lab) -> Iterator[Orders]:
    bench = Orders(lab)
    yield bench
    bench.close()


def test_each_bmc_shows_one_machine_as_it_is(lab: Lab, redfish: Redfish) -> None:
    for machine in lab.plan.machines:
        base = f"http://127.0.0.1:{machine.bmc_port}"
        members = redfish.client.get(f"{base}/redfish/v1/Systems").json()["Members"]
        assert len(members) == 1
        system = redfish.client.get(base + members[0]["@odata.id"]).json()
        assert (system["SerialNumber"], system["UUID"]) == (machine.serial, machine.uuid)
        nics = redfish.client.get(redfish.url(machine, "/EthernetInterfaces")).json()["Members"]
        found = [redfish.client.get(base + nic["@odata.id"]).json() for nic in nics]
        assert [nic["MACAddress"] for nic in found] == [port.mac for port in machine.ports]
        assert [nic["SpeedMbps"] for nic in found] == [1000, 100_000, 100_000]
        processors = redfish.client.get(redfish.url(machine, "/Processors")).json()["Members"]
        assert len(processors) == system["ProcessorSummary"]["Count"] == 1
        assert system["ProcessorSummary"]["CoreCount"] == os.cpu_count()


def test_a_standard_client_reads_it(lab: Lab) -> None:
    sushy = pytest.importorskip("sushy", reason="needs sushy")
    auth = sushy.auth.BasicAuth(lab.username, lab.password)
    root = sushy.Sushy(f"http://{lab.endpoints[0]}", auth=auth)
    system = root.get_system(root.get_system_collection().members_identities[0])
    system.set_system_boot_options(target=sushy.BootSource.PXE, enabled=sushy.BootSourceOverrideEnabled.ONCE)
    system.refresh(force=True)
    assert system.boot.target == sushy.BootSource.PXE
    assert system.boot.enabled == sushy.BootSourceOverrideEnabled.ONCE
    assert sum(disk.capacity_bytes or 0 for disk in _disks(system)) == lab.plan.machines[0].disk_bytes


def _disks(system: Any) -> list[Any]:
    return [device for store in system.simple_storage.get_members() for device in store.devices]


@pytest.mark.parametrize("auth", [None, ("admin", "wrong"), ("root", "wrong")])
def test_without_the_password_there_is_nothing(lab: Lab, auth: tuple[str, str] | None) -> None:
    url = f"http://{lab.endpoints[0]}/redfish/v1/Systems"
    assert httpx.get(url, auth=auth).status_code == 401


def test_the_password_is_in_no_log_and_no_command_line(lab: Lab) -> None:
    entry = read_entry(lab.id)
    assert entry is not None
    command_line = Path(f"/proc/{entry.owner.pid}/cmdline").read_bytes().decode()
    assert lab.password not in lab.folder.log_file.read_text() + command_line
    for path in lab.folder.path.rglob("*"):
        if path.is_file() and lab.password.encode() in path.read_bytes():
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize(
    "boot",
    [
        {"BootSourceOverrideTarget": "Floppy"},
        {"BootSourceOverrideEnabled": "Twice", "BootSourceOverrideTarget": "Pxe"},
        {"BootSourceOverrideMode": "Legacy"},
        {"Nothing": 1},
    ],
)
def test_a_wrong_override_is_refused(lab: Lab, redfish: Redfish, boot: dict[str, Any]) -> None:
    answer = redfish.client.patch(redfish.url(lab.plan.machines[0]), json={"Boot": boot})
    assert answer.status_code == 400
    assert "error" in answer.json()


def test_it_is_inspected_and_says_that_it_runs_no_system(lab: Lab, redfish: Redfish, orders: Orders) -> None:
    machine = lab.plan.machines[1]
    orders.give(machine, "inspect")
    redfish.power_on(machine, "Pxe")
    (facts,) = orders.wait("facts", machine)
    assert facts["serial"] == machine.serial
    assert [nic["lldp"]["leaf"] for nic in facts["nics"]] == [machine.leaf] * 3
    redfish.wait_for(machine, "Off")
    image = lab.folder.path / "machines" / "any.tar.zst"
    image.write_bytes(b"bytes")
    orders.give_deploy(machine, image, [])
    redfish.power_on(machine, "Pxe")
    (failed,) = orders.wait("failed", machine)
    assert failed["reason"] == "unsupported"
    redfish.reset(machine, "ForceOff")
    redfish.wait_for(machine, "Off")


def test_a_dead_bmc_answers_nobody_until_it_is_repaired(lab: Lab, redfish: Redfish) -> None:
    machine, other = lab.plan.machines[0], lab.plan.machines[1]
    redfish.system(machine)  # a connection that is open when the fault comes
    lab.inject(machine.name, "bmc-dead")
    with pytest.raises(httpx.TransportError):
        redfish.system(machine)
    assert redfish.system(other)["UUID"] == other.uuid
    assert [row["faults"] for row in lab.status()][:2] == [["bmc-dead"], []]
    lab.clear(machine.name)
    assert redfish.system(machine)["UUID"] == machine.uuid


def test_a_bmc_that_ignores_the_override_is_seen_by_reading_back(lab: Lab, redfish: Redfish) -> None:
    machine = lab.plan.machines[2]
    lab.inject(machine.name, "bmc-ignores-boot")
    assert redfish.boot(machine, "Pxe").status_code == 204
    assert redfish.system(machine)["Boot"]["BootSourceOverrideTarget"] == "None"
    lab.clear(machine.name, "bmc-ignores-boot")
    redfish.boot(machine, "Pxe")
    assert redfish.system(machine)["Boot"]["BootSourceOverrideTarget"] == "Pxe"


def test_wrong_words_are_told(lab: Lab) -> None:
    with pytest.raises(BadInput, match="m9"):
        lab.inject("m9", "bmc-dead")
    with pytest.raises(BadInput, match="coffee"):
        lab.inject("m1", "coffee")
    with pytest.raises(BadInput, match="cables"):
        lab.inject("m1", "link-down")
    with pytest.raises(Conflict, match="is up"):
        lab.up(machines=3, kind="process")
    assert lab.stands(3, "process", 2)  # an `up` that was killed at its end is not done again
    assert not lab.stands(4, "process", 2)
    assert (lab.folder.path / "password").read_text() == lab.password + "\n"
    with pytest.raises(Unavailable, match="no network"):
        lab.fabric().apply({"02:00:00:00:00:00": Segment("a", "compute", 1, "a")})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("kind", {"kind": "mainframe"}),
        ("machines", {"machines": 0}),
        ("leaves", {"leaves": 0}),
        ("mounts", {"mounts": [("/proc/nowhere", "ro", "/x")]}),
        ("mounts", {"mounts": [("/", "rx", "/x")]}),
        ("storage", {"storage": "/etc/passwd"}),
    ],
)
def test_bad_input_changes_nothing(tmp_path: Path, field: str, wrong: dict[str, Any]) -> None:
    lab = Lab(tmp_path / "none")
    with pytest.raises(BadInput) as refused:
        lab.up(**{"kind": "process", **wrong})
    assert refused.value.field == field
    assert not (tmp_path / "none").exists()
    with pytest.raises(Unavailable, match="no lab is up"):
        lab.inject("m1", "bmc-dead")


def test_after_kill_9_of_the_keeper_the_same_command_starts_again(tmp_path: Path, need: Need) -> None:
    need("process")
    lab = Lab(tmp_path / "lab").up(machines=2, kind="process", attached=True)
    password, machines = lab.password, lab.plan.machines
    Redfish(lab).power_on(machines[0], "Pxe")
    deadline = time.monotonic() + 10
    while lab.status()[0]["pid"] is None:
        assert time.monotonic() < deadline
    entry = read_entry(lab.id)
    assert entry is not None
    os.kill(entry.owner.pid, signal.SIGKILL)
    while entry.owner.alive():
        time.sleep(0.01)
    assert [row["stage"] for row in lab.status()] == ["the lab is dead"] * 2
    lab.up(machines=2, kind="process", attached=True)
    assert (lab.password, lab.plan.machines) == (password, machines)
    lab.down()
    assert processes_of(lab.id) == set()
    assert read_entry(lab.id) is None


def test_an_attached_lab_ends_with_its_owner(tmp_path: Path, need: Need) -> None:
    need("process")
    program = f"""
        from l0_infra_os.lab import Lab
        Lab({str(tmp_path / "lab")!r}).up(machines=1, kind="process", attached=True)
        print("up", flush=True)
        input()
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        lab = Lab(tmp_path / "lab")
        port = lab.plan.machines[0].bmc_port
        assert processes_of(lab.id)
        owner.kill()
    deadline = time.monotonic() + 10
    while processes_of(lab.id) or read_entry(lab.id):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{port}/redfish/v1")
    lab.down()
