"""Stages 1 and 2: a lab of five machines, and infra-os from discovery to a tenant's nodes."""

from __future__ import annotations

import sys
from pathlib import Path

from l0_infra_os.api import InfraOs, Lab, Settings

from integration_tests.demo.stage import ROOT, TENANT, Demo

MEMBERS, SPARES = 4, 1


def lab(demo: Demo) -> Lab:
    """Five machines, powered off, each with a BMC that speaks Redfish."""
    Lab.clean()  # what a killed run may have left
    room = Lab(Settings.load().lab_folder)
    demo.stack.callback(room.down)
    room.up(
        MEMBERS + SPARES,
        "process" if demo.machines == "process" else "nspawn",
        leaves=2,
        mounts=[(folder, "ro", folder) for folder in shared_environment()],
        storage=demo.shared.parent,
        attached=True,
        say=demo.say,
    )
    demo.guard.needs(f"the lab's keeper (log: {room.folder.log_file})", lambda: room.alive)
    return room


def shared_environment() -> list[Path]:
    """The folders of this Python environment: itself, the interpreter under it, the packages."""
    base = Path(sys.base_prefix)
    folders = [Path(sys.prefix), ROOT / "packages", *([] if base.is_relative_to("/usr") else [base])]
    return list(dict.fromkeys(folders))


def nodes(demo: Demo, room: Lab) -> InfraOs:
    """Enroll, inspect, lease, provision; writes the tenant's inventory."""
    bodies = demo.machines != "process"
    infra = InfraOs(Settings.load(provisioning_port=None if bodies else 0))
    demo.stack.callback(infra.close)
    first, last = room.endpoints[0], room.endpoints[-1].rpartition(":")[2]
    found = infra.enroll([f"{first}-{last}"], username=room.username, password=room.password)
    demo.say(f"enrolled {len(found.new)} machines by their BMCs at {first}-{last}")
    infra.create_tenant(TENANT)
    if bodies:
        infra.build_image(say=demo.say)
    else:
        (empty := demo.folder("empty.tar.zst")).write_bytes(bytes.fromhex("28b52ffd2000010000"))
        infra.add_image("debian", empty, format="tar.zst")  # is planned with, never booted
    with infra.serving():
        infra.inspect()
        lease = infra.lease(TENANT, nodes=MEMBERS, spares=SPARES)
        demo.say(f"leased {MEMBERS} nodes and a spare: {lease.id}")
        if not bodies:
            plan = infra.plan_provision(lease.id, image="debian")
            demo.notes["limits"] = f"L0 ends at its plan ({len(plan)} steps), L1 is left out: run it as root"
            demo.say(demo.notes["limits"])
            return infra
        infra.provision(lease.id, image="debian", ssh_keys=[demo.public_key()])
    inventory = infra.inventory(TENANT)
    inventory.write(demo.document("node-inventory"))
    for node in inventory.nodes:
        demo.say(f"{node.id} {node.role}, {node.location.leaf}: {node.state}, {node.addresses.management}")
    return infra


def firmware_machine(demo: Demo) -> None:
    """One machine with real UEFI firmware through the same code: PXE, image on its disk, login, erased."""
    settings = Settings.load(home=demo.folder("firmware"))
    room = Lab(settings.lab_folder)
    demo.stack.callback(room.down)
    room.up(1, "qemu", leaves=1, attached=True, say=demo.say)
    with InfraOs(settings) as infra, infra.serving():
        infra.build_image("disk", say=demo.say)
        infra.enroll(room.endpoints, username=room.username, password=room.password)
        infra.create_tenant(TENANT)
        infra.inspect()
        lease = infra.lease(TENANT, nodes=1)
        infra.provision(lease.id, image="debian-disk", ssh_keys=[demo.public_key()])
        (node,) = infra.inventory(TENANT).nodes
        demo.say(f"{node.id} with UEFI firmware: {node.state}, {node.cpu_model}, {node.disks[0].name}")
        infra.release(lease.id)
        demo.say(f"released: {infra.nodes()[0].state}, erased")
