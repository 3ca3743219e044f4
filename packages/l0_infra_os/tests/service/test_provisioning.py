"""A lease's way from available nodes to a running tenant and back, and everything that can go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from l0_infra_os._kit.problems import BadInput, Conflict, Failed, NotFound, Unavailable
from l0_infra_os.api import InfraOs
from l0_infra_os.testing import Farm, MemoryFabric
from l0_infra_os.testing.farm import PASSWORD, USERNAME

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFarmFarmFarmFarmFarmFarmFarmFarmFarmFarmFarm test"


def until(holds: Callable[[], bool], patience_s: float = 30.0) -> None:
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def fabric_of(infra: InfraOs) -> MemoryFabric:
    assert isinstance(infra.fabric, MemoryFabric)
    return infra.fabric


def test_from_available_to_active_and_back(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=3, spares=1)
    assert lease.members == ("m1", "m2", "m3") or len({ready.node(n)["leaf"] for n in lease.members}) == 2
    lease = ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    assert lease.state == "active"
    disk = farm.state("m1")["disk"]
    assert (disk["hostname"], disk["storage"], disk["ssh_keys"]) == ("m1", "demo", [KEY])
    document = ready.inventory("demo")
    assert [node.role for node in document.nodes].count("spare") == 1
    assert {node.state for node in document.nodes} == {"active"}
    assert len({node.addresses.compute for node in document.nodes}) == 4
    ended = ready.release(lease.id)
    assert ended.state == "ended"
    assert [node.state for node in ready.nodes()] == ["available"] * 4
    assert farm.state("m1") == {"power": "Off", "disk": None, "booted": "", "faults": {}}


def test_the_network_is_there_before_the_system_boots_and_gone_before_the_erasure(ready: InfraOs) -> None:
    lease = ready.lease("demo", nodes=1)
    node = lease.members[0]
    ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    compute = next(port for port in ready.node(node)["ports"] if port["segment"] == "compute")
    assert compute["observed"] == "demo-compute"
    ready.release(lease.id)
    states = [row["state"] for row in ready.timeline(node)]
    assert states[states.index("deploying") :] == [
        "deploying", "attaching", "booting", "active", "detaching", "erasing", "available"
    ]  # fmt: skip
    assert fabric_of(ready).changes[-1][1] is None


def test_nothing_boots_while_the_fabric_shows_something_else(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=1)
    node = lease.members[0]
    fabric_of(ready).deaf.add(farm.machines[node].macs[1])
    replacements = [other for other in ("m1", "m2", "m3", "m4") if other != node]
    lease = ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    assert lease.members[0] in replacements  # the one behind the lying port never booted a system
    assert farm.state(node)["booted"] == ""
    assert ready.node(node)["state"] == "condemned"  # and so it stays while its port is not seen isolated
    assert "02:00:01" in ready.node(node)["problem"]
    fabric_of(ready).deaf.clear()
    with ready.serving():
        until(lambda: ready.node(node)["state"] == "quarantined")


def test_release_waits_for_isolation_and_goes_on_when_the_fabric_is_back(ready: InfraOs) -> None:
    lease = ready.lease("demo", nodes=1)
    ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    fabric_of(ready).broken = True
    with ready.serving():
        ready.release(lease.id, wait=False)
        until(lambda: bool(ready.nodes(lease=lease.id)[0].problem))
        node = ready.nodes(lease=lease.id)[0]
        assert (node.state, "fabric manager" in str(node.problem)) == ("detaching", True)
        fabric_of(ready).broken = False
        until(lambda: ready.lease_of(lease.id).state == "ended")


def test_a_quota_holds_and_says_how_many_are_left(ready: InfraOs) -> None:
    ready.create_tenant("demo", quota_nodes=3)
    ready.lease("demo", nodes=2)
    with pytest.raises(Conflict, match="would hold 4 nodes, its quota is 3"):
        ready.lease("demo", nodes=2)
    assert len(ready.nodes(tenant="demo")) == 2


def test_too_many_nodes_are_no_lease_at_all(ready: InfraOs) -> None:
    with pytest.raises(Conflict, match="5 nodes are asked for, 4 are available"):
        ready.lease("demo", nodes=5)
    assert ready.leases() == []
    with pytest.raises(NotFound, match="no tenant 'nobody'"):
        ready.lease("nobody", nodes=1)


def test_an_image_that_was_changed_on_disk_starts_nothing(ready: InfraOs) -> None:
    lease = ready.lease("demo", nodes=2)
    digest = ready.images.get("debian").digest
    path = ready.images.path(digest)
    path.chmod(0o644)
    path.write_bytes(b"other bytes")
    with pytest.raises(Failed):
        ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    assert ready.lease_of(lease.id).state == "reserved"
    assert {node.state for node in ready.nodes(lease=lease.id)} == {"leased"}


def test_an_image_that_arrives_wrong_is_the_images_fault_not_the_nodes(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=2)
    for node in lease.members:
        farm.fault(node, "wrong-digest")
    with pytest.raises(Failed, match="is reserved after provisioning") as caught:
        ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    assert "digest" in caught.value.why
    assert {node.state for node in ready.nodes(lease=lease.id)} == {"leased"}
    for node in lease.members:
        assert farm.state(node)["disk"] is None
        farm.fault(node, "wrong-digest", None)
    assert ready.provision(lease.id, image="debian", ssh_keys=[KEY]).state == "active"


@pytest.mark.parametrize("key", ["-----BEGIN OPENSSH PRIVATE KEY-----", "hello", "ssh-rsa", " "])
def test_what_is_no_public_key_starts_nothing(ready: InfraOs, key: str) -> None:
    lease = ready.lease("demo", nodes=1)
    with pytest.raises(BadInput) as caught:
        ready.provision(lease.id, image="debian", ssh_keys=[key])
    assert caught.value.field == "ssh_keys"
    assert ready.lease_of(lease.id).state == "reserved"


def test_a_dead_node_is_quarantined_and_another_takes_its_place(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=2)
    dead = lease.members[0]
    farm.fault(dead, "bmc-dead")
    lease = ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    assert lease.state == "active"
    assert len(lease.members) == 2
    assert dead not in lease.members
    row = ready.node(dead)
    assert (row["state"], row["lease"]) == ("quarantined", None)
    assert "503" in row["problem"]
    farm.fault(dead, "bmc-dead", None)
    ready.repair(dead)
    assert ready.node(dead)["state"] == "available"


def test_without_a_free_node_the_lease_is_degraded_and_says_why(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=4)
    farm.fault("m2", "silent")
    ready.settings.boot_timeout_s = 0.5
    with pytest.raises(Failed, match="is degraded") as caught:
        ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    assert "m2: the agent did not report" in caught.value.why
    assert [node.state for node in ready.nodes(lease=lease.id)] == ["active"] * 3
    farm.fault("m2", "silent", None)
    ready.settings.boot_timeout_s = 10.0
    ready.repair("m2")
    assert ready.provision(lease.id, image="debian", ssh_keys=[KEY]).state == "active"
    assert len(ready.nodes(lease=lease.id)) == 4


def test_an_erasure_that_cannot_be_verified_never_frees_the_node(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=1)
    node = lease.members[0]
    ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    farm.fault(node, "unverified-erase")
    assert ready.release(lease.id).state == "ended"
    row = ready.node(node)
    assert row["state"] == "quarantined"
    assert "not verified by reading" in row["problem"]
    with pytest.raises(Conflict):
        ready.forget(node)
    farm.fault(node, "unverified-erase", None)
    ready.repair(node)
    assert ready.node(node)["state"] == "available"
    evidence = [row for row in ready.audit() if row["verb"] == "erased"]
    assert [row["detail"]["verified"] for row in evidence][-1] is True


def test_growing_and_shrinking(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=1)
    ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    added = ready.grow(lease.id, nodes=2)
    assert ready.provision(lease.id, image="debian", ssh_keys=[KEY]).state == "active"
    first = lease.members[0]
    assert ready.node(first)["since"] < ready.node(added[0])["since"]  # the first one was left alone
    ready.shrink(lease.id, [added[0]])
    assert ready.node(added[0])["state"] == "available"
    assert farm.state(added[0])["disk"] is None
    assert len(ready.lease_of(lease.id).members) == 2
    with pytest.raises(BadInput, match="at least one node has to leave and one to stay"):
        ready.shrink(lease.id, [first, added[1]])


def test_power_is_for_nodes_that_run(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=1)
    node = lease.members[0]
    with pytest.raises(Conflict, match="is leased"):
        ready.power(node, "on")
    ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    assert ready.power(node, "off") == "off"
    assert farm.state(node)["power"] == "Off"
    with ready.serving():
        assert ready.power(node, "on") == "on"
        until(lambda: farm.state(node)["booted"] == "system")
    assert ready.node(node)["state"] == "active"


def test_a_slow_bmc_that_stays_on_is_given_up(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=1)
    node = lease.members[0]
    ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    farm.fault(node, "stays-on")
    ready.settings.power_timeout_s = 0.5
    ready.release(lease.id)
    assert ready.node(node)["state"] == "quarantined"
    assert "does not power off" in ready.node(node)["problem"]
    assert [port["observed"] for port in ready.node(node)["ports"]][1:] == ["isolated", "isolated"]


def test_releasing_without_a_fabric_waits_no_longer_than_allowed(ready: InfraOs) -> None:
    lease = ready.lease("demo", nodes=1)
    ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    fabric = ready.fabric
    assert isinstance(fabric, MemoryFabric)
    fabric.broken = True
    with pytest.raises(Unavailable, match=r"is not released after 1 s") as caught:
        ready.release(lease.id, timeout_s=1.0)
    assert "is detaching: the fabric manager does not answer" in caught.value.why
    fabric.broken = False
    assert ready.release(lease.id, timeout_s=30.0).state == "ended"
    with pytest.raises(BadInput):
        ready.release(lease.id, timeout_s=0)


def test_metering_counts_what_the_tenant_held(ready: InfraOs) -> None:
    lease = ready.lease("demo", nodes=2)
    time.sleep(0.3)
    ready.release(lease.id)
    charged = [row for row in ready.meter() if row["charged"]]
    assert {row["tenant"] for row in charged} == {"demo"}
    assert sum(row["node_seconds"] for row in charged) >= 0.6
    assert {row["state"] for row in charged} == {"leased"}


SERVE = """
import sys
from l0_infra_os.api import InfraOs, Settings
from l0_infra_os.testing import MemoryFabric
class NoBoot:
    def reserve(self, hosts, *, boot_url): pass
settings = Settings.load(home=sys.argv[1], lab_dir=sys.argv[2], provisioning_port=0, retry_s=0.05)
with InfraOs(settings, given_fabric=MemoryFabric(), given_boot=NoBoot()) as infra:
    infra.provision(sys.argv[3], image="debian", ssh_keys=[sys.argv[4]])
    print("done", flush=True)
"""


MOMENTS = [0.05 * step for step in range(20)] if os.environ.get("OGAI_SOAK") == "1" else [0.1, 0.4]


@pytest.mark.parametrize("after_s", MOMENTS)
def test_killed_in_the_middle_of_provisioning_it_goes_on(
    ready: InfraOs, farm: Farm, lab_dir: Path, after_s: float
) -> None:
    lease = ready.lease("demo", nodes=4)
    command = [sys.executable, "-c", SERVE, str(ready.settings.home), str(lab_dir), lease.id, KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        until(lambda: ready.lease_of(lease.id).state != "reserved")
        time.sleep(after_s)
        service.send_signal(signal.SIGKILL)
    nodes = ready.nodes(lease=lease.id)
    assert len(nodes) == 4
    lease = ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    assert (lease.state, len(lease.members)) == ("active", 4)
    assert all(farm.state(node)["booted"] == "system" for node in lease.members)


def test_a_wait_takes_over_from_a_service_that_dies(ready: InfraOs, farm: Farm, lab_dir: Path) -> None:
    """The caller does not serve: another process does, and is killed; the caller's wait goes on."""
    lease = ready.lease("demo", nodes=2)
    idle = (
        "import sys,time\n"
        + SERVE.split("with InfraOs", maxsplit=1)[0]
        + (
            "infra = InfraOs(settings, given_fabric=MemoryFabric(), given_boot=NoBoot())\n"
            "with infra.serving():\n    print('up', flush=True)\n    time.sleep(60)\n"
        )
    )
    with subprocess.Popen(
        [sys.executable, "-c", idle, str(ready.settings.home), str(lab_dir)],
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "up\n"
        with ready.serving() as here:
            assert here is False
        killed: list[bool] = []

        def kill_it(_nodes: object) -> None:
            if not killed:
                killed.append(True)
                other.send_signal(signal.SIGKILL)
                other.wait()

        lease = ready.provision(lease.id, image="debian", ssh_keys=[KEY], progress=kill_it)
    assert lease.state == "active"


def test_enrolment_twice_of_a_running_node_changes_nothing(ready: InfraOs, farm: Farm) -> None:
    lease = ready.lease("demo", nodes=1)
    ready.provision(lease.id, image="debian", ssh_keys=[KEY])
    done = ready.enroll(farm.addresses, username=USERNAME, password=PASSWORD)
    assert done.new == []
    assert ready.lease_of(lease.id).state == "active"
