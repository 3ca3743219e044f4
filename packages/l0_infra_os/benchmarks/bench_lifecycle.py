"""Redfish requests and CPU seconds for one node's whole life: enroll, inspect, lease, provision, release.

Ours runs against sushy-tools' emulator with agents that speak the in-band protocol (`testing.farm`).
The peer is a plain script over sushy that switches the same emulated machines through the same four
boots (agent, agent, disk, agent), one sign-in for each boot, as scripts and playbooks do.  It does
the BMC's part only: no database, no in-band service, no fabric.  So its CPU seconds are a floor.

For orientation, not run here: Ironic 39.0.0 with redfish and ramdisk deploy was measured at 66.8
requests and 7.4-8.4 CPU seconds a node for manage, deploy and delete on a machine of this kind.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from l0_infra_os.api import InfraOs, Settings
from l0_infra_os.testing import Farm, MemoryFabric
from l0_infra_os.testing.farm import PASSWORD, USERNAME, machines

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFarmFarmFarmFarmFarmFarmFarmFarmFarmFarmFarm bench"
BAR_REQUESTS, BAR_CPU_S = 40.0, 0.5

PEER = """
import json, resource, sys, time
import sushy
addresses, username, password = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]

def wait(system, state):
    while True:
        system.refresh(force=True)
        if system.power_state == state:
            return
        time.sleep(0.15)

start = resource.getrusage(resource.RUSAGE_SELF)
for address in addresses:
    for target in (sushy.BootSource.PXE, sushy.BootSource.PXE, sushy.BootSource.HDD, sushy.BootSource.PXE):
        root = sushy.Sushy(f"http://{address}", username=username, password=password)
        system = root.get_system()
        [nic.mac_address for nic in system.ethernet_interfaces.get_members()]
        system.reset_system(sushy.ResetType.FORCE_OFF)
        wait(system, sushy.PowerState.OFF)
        system.set_system_boot_options(target, enabled=sushy.BootSourceOverrideEnabled.ONCE)
        system.refresh(force=True)
        assert system.boot.target == target
        system.reset_system(sushy.ResetType.ON)
        wait(system, sushy.PowerState.ON)
    system.reset_system(sushy.ResetType.FORCE_OFF)
    wait(system, sushy.PowerState.OFF)
end = resource.getrusage(resource.RUSAGE_SELF)
print(end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime)
"""


class NoNetworkBoot:
    """Farm machines ask for their orders without DHCP."""

    def reserve(self, hosts: Any, *, boot_url: str) -> None:
        """Nothing to reserve."""


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ours(folder: Path, farm: Farm, count: int) -> tuple[float, float, float]:
    """(requests a node, CPU seconds a node, wall seconds) of whole lives."""
    settings = Settings(home=folder, lab_dir=folder / "lab", provisioning_port=0)
    image = folder / "image.tar.zst"
    image.write_bytes(b"\x28\xb5\x2f\xfd" + b"\0" * 1_000_000)
    before, started, cpu = sum(farm.requests().values()), time.monotonic(), cpu_s()
    with InfraOs(settings, given_fabric=MemoryFabric(), given_boot=NoNetworkBoot()) as infra:
        infra.enroll(farm.addresses, username=USERNAME, password=PASSWORD)
        infra.add_image("image", image, format="tar.zst")
        infra.create_tenant("bench")
        with infra.serving():
            infra.inspect()
            lease = infra.lease("bench", nodes=count)
            infra.provision(lease.id, image="image", ssh_keys=[KEY])
            infra.release(lease.id)
        assert all(node.state == "available" for node in infra.nodes())
    wall, used = time.monotonic() - started, cpu_s() - cpu
    return (sum(farm.requests().values()) - before) / count, used / count, wall


def peer(farm: Farm, count: int) -> tuple[float, float]:
    """(requests a node, CPU seconds a node) of the plain script."""
    before = sum(farm.requests().values())
    command = [sys.executable, "-W", "ignore", "-c", PEER, json.dumps(farm.addresses), USERNAME, PASSWORD]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (sum(farm.requests().values()) - before) / count, float(done.stdout) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20)
    count = parser.parse_args().nodes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lab").mkdir()
        with Farm(folder / "farm", machines(count), boot_url_file=folder / "lab" / "boot-url") as farm:
            requests, cpu, wall = ours(folder, farm, count)
            farm.reset()
            peer_requests, peer_cpu = peer(farm, count)
    sizes = f"{count} emulated nodes, sushy-tools {version('sushy-tools')}; ours took {wall:.1f} s in all"
    rows = [
        row("redfish requests per node life", requests, peer_requests, "requests", BAR_REQUESTS, sizes),
        row("cpu seconds per node life", cpu, peer_cpu, "s", BAR_CPU_S, sizes),
    ]
    print(json.dumps(rows, indent=1))


def row(name: str, value: float, peer_value: float, unit: str, bar: float, sizes: str) -> dict[str, Any]:
    """One result beside the plain script's."""
    return {
        "layer": "l0",
        "name": name,
        "ours": round(value, 3),
        "peer": round(peer_value, 3),
        "peer_version": f"plain script over sushy {version('sushy')}",
        "ratio": round(peer_value / value, 2),
        "unit": unit,
        "how": f"{sizes}; the peer does the BMC's part only",
        "bar": bar,
        "ok": value <= bar,
    }


if __name__ == "__main__":
    main()
