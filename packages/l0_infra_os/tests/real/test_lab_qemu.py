"""One machine with real firmware: UEFI, DHCP, TFTP, iPXE, an agent in memory, an NVMe disk, a login."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from l0_infra_os._kit.problems import Unavailable
from l0_infra_os.backends.images.disk import build_disk
from l0_infra_os.lab import Lab
from l0_infra_os.lab.plan import Kind
from l0_infra_os.testing.bench import Orders, Redfish

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]
PATIENCE_S = 600.0
"""Translated code on a shared processor: a minute a step when alone, several when not."""


def test_from_pxe_to_a_login_on_its_own_disk(
    lab_folder: Path, ssh_key: Path, need: Callable[[Kind], None]
) -> None:
    need("qemu")
    try:
        image = build_disk()
    except Unavailable as missing:
        pytest.skip(f"{missing.what}; {missing.do}")
    lab = Lab(lab_folder).up(machines=1, kind="qemu", leaves=1, attached=True)
    (machine,) = lab.plan.machines
    orders, redfish = Orders(lab), Redfish(lab)
    console = lab.folder.machine(machine) / "console.log"

    orders.give(machine, "inspect")
    redfish.power_on(machine, "Pxe")
    (facts,) = orders.wait("facts", machine, patience_s=PATIENCE_S)
    assert facts["token"] == f"token-{machine.name}"
    assert facts["serial"] == machine.serial, "read from the firmware's SMBIOS table"
    assert facts["cpu"]["cores"] == machine.cpu_cores
    assert [disk["size_bytes"] for disk in facts["disks"]] == [machine.disk_bytes]
    assert {nic["mac"]: nic["segment"] for nic in facts["nics"]} == {
        port.mac: port.segment for port in machine.ports
    }
    assert {nic["lldp"]["leaf"] for nic in facts["nics"]} == {machine.leaf}
    redfish.wait_for(machine, "Off", PATIENCE_S)
    assert redfish.system(machine)["Boot"]["BootSourceOverrideEnabled"] == "Disabled"
    booted = console.read_text("utf-8", errors="replace")
    assert "Start PXE over IPv4" in booted
    assert "iPXE" in booted

    public_key = ssh_key.with_suffix(".pub").read_text("utf-8")
    orders.give_deploy(machine, image, [public_key])
    redfish.power_on(machine, "Pxe")
    (deployed,) = orders.wait("deployed", machine, patience_s=PATIENCE_S)
    ordered = orders.orders[machine.management.mac]["image"]
    assert (deployed["sha256"], deployed["bytes"]) == (ordered["sha256"], ordered["size"])
    redfish.reset(machine, "ForceOff")
    redfish.wait_for(machine, "Off")

    redfish.power_on(machine, "Hdd")
    (checkin,) = orders.wait("checkin", machine, patience_s=PATIENCE_S)
    assert checkin["hostname"] == "node-m1"
    assert checkin["addresses"] == {
        port.segment: orders.address(machine, port.segment) for port in machine.ports
    }
    options = [
        "BatchMode=yes",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "ConnectTimeout=60",
    ]
    flags = [word for option in options for word in ("-o", option)]
    ssh = ["ssh", "-q", "-i", str(ssh_key), *flags, f"root@{checkin['addresses']['management']}"]
    answer = subprocess.run(
        [*ssh, "hostname; findmnt -n -o SOURCE /; cat /etc/ssh/ssh_host_ed25519_key.pub"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    hostname, source, key = answer.stdout.splitlines()
    assert (hostname, source) == ("node-m1", "/dev/nvme0n1p3")
    assert key.startswith(checkin["host_key"])
    until = time.monotonic() + PATIENCE_S  # the check-in comes before the console's prompt
    while "node-m1 login:" not in console.read_text("utf-8", errors="replace"):
        assert time.monotonic() < until, console.read_text("utf-8", errors="replace")[-2000:]
        time.sleep(0.5)

    redfish.reset(machine, "GracefulShutdown")
    redfish.wait_for(machine, "Off", PATIENCE_S)
    orders.close()
