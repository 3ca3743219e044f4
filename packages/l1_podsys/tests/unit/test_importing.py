"""A node-inventory/v1 document becomes an inventory; the document's digest stays in the lineage."""

from __future__ import annotations

from typing import Any

import pytest
from l1_podsys._kit.documents import digest_of
from l1_podsys.api import BadInput
from l1_podsys.core.inventory import from_node_inventory

DOCUMENT: dict[str, Any] = {
    "schema": "ogai.node-inventory/v1",
    "producer": {"name": "l0-infra-os", "version": "0.1.0"},
    "inputs": [],
    "taken_at": "2026-01-02T03:04:05Z",
    "tenant": "demo",
    "a_field_of_a_newer_version": 1,
    "nodes": [
        {
            "id": "m1", "hostname": "m1", "serial": "S1", "bmc_ref": "127.0.0.1:8101", "state": "active",
            "role": "member", "arch": "x86_64", "cpu_cores": 2, "memory_bytes": 1 << 30,
            "nics": [{"name": "mgmt0", "mac": "02:00:00:00:00:01", "segment": "management", "new": 1}],
            "location": {"site": "lab", "spine": "spine1", "leaf": "leaf1", "rack": "r1"},
            "addresses": {"management": "10.71.4.11", "compute": "10.72.4.11", "storage": None},
            "ssh_user": "root",
        },
        {
            "id": "m2", "hostname": "m2", "serial": "S2", "bmc_ref": "127.0.0.1:8102", "state": "active",
            "role": "spare", "arch": "x86_64", "cpu_cores": 2, "memory_bytes": 1 << 30,
            "location": {"leaf": "leaf2", "rack": "r2"}, "addresses": {"management": "10.71.4.12"},
            "ssh_user": "root", "ssh_port": 2200,
        },
    ],
}  # fmt: skip


NODE = DOCUMENT["nodes"][0]


def test_import() -> None:
    inventory = from_node_inventory(DOCUMENT, ssh_key="/k", profile="base", shared_path="/srv/storage")
    assert inventory.cluster == inventory.tenant == "demo"
    assert inventory.source is not None
    assert inventory.source.digest == digest_of(DOCUMENT)
    one, two = inventory.hosts
    assert (one.address, one.addresses) == ("10.71.4.11", {"compute": "10.72.4.11"})
    assert one.location.leaf == "leaf1"
    assert two.role == "spare"
    assert inventory.login(two).port == 2200
    assert inventory.login(one).key == "/k"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schema": "ogai.job-spec/v1"}, "schema"),
        ({"nodes": []}, "nodes"),
        ({"nodes": [NODE | {"addresses": {}}]}, "nodes.0.addresses.management"),
        (
            {"nodes": [DOCUMENT["nodes"][0], DOCUMENT["nodes"][0] | {"id": "m9", "hostname": "m9"}]},
            "hosts.1.serial",
        ),
    ],
)
def test_a_document_with_a_fault_is_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_node_inventory(DOCUMENT | change)
    assert caught.value.field == field
