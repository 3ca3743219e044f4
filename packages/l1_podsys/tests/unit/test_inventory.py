"""An inventory with a slip in it is refused with the field at fault; a good one survives a round trip."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from l1_podsys.api import BadInput
from l1_podsys.core.inventory import parse, to_yaml


def host(number: int, **fields: Any) -> dict[str, Any]:
    base = {
        "id": f"n{number}",
        "hostname": f"node{number}",
        "address": f"10.1.0.{number}",
        "serial": f"SN{number}",
        "addresses": {"compute": f"10.2.0.{number}"},
        "nics": [{"name": "eth0", "mac": f"02:00:00:00:00:{number:02x}"}],
    }
    return base | fields


def inventory(*hosts: dict[str, Any], **fields: Any) -> str:
    networks = {"management": "10.1.0.0/24", "compute": "10.2.0.0/24"}
    values = {"cluster": "c", "networks": networks, "hosts": list(hosts), **fields}
    return yaml.safe_dump(values, sort_keys=False)


def test_a_good_one_survives_a_round_trip() -> None:
    first = parse(inventory(host(1), host(2, role="spare"), ssh={"user": "ops", "port": 2222}))
    assert parse(to_yaml(first)) == first
    assert first.hosts[1].role == "spare"


MAC_OF_1 = {"name": "e", "mac": "02-00-00-00-00-01"}
SLIPS = [
    ("two equal MACs", [host(1), host(2, nics=[MAC_OF_1])], "hosts.1.nics.0.mac", "n1"),
    ("two equal hostnames", [host(1), host(2, hostname="NODE1")], "hosts.1.hostname", "node1"),
    ("two equal ids", [host(1), host(2, id="n1")], "hosts.1.id", "n1"),
    ("two equal serials", [host(1), host(2, serial="SN1")], "hosts.1.serial", "SN1"),
    ("two equal addresses", [host(1), host(2, address="10.1.0.1")], "hosts.1.address", "10.1.0.1"),
    ("one IPv6 address spelt twice", [host(1, address="fd00::1"), host(2, address="fd00:0:0::1")],
     "hosts.1.address", "fd00::1"),
    ("one compute address twice", [host(1), host(2, addresses={"compute": "10.2.0.1"})],
     "hosts.1.addresses.compute", "n1"),
    ("an address outside its network", [host(1), host(2, address="10.9.0.2")], "hosts.1.address", "10.1.0.0"),
    ("an option as an address", [host(1, address="-oProxyCommand=x")], "hosts.0.address", "pattern"),
    ("an option as an id", [host(1, id="-F")], "hosts.0.id", "pattern"),
    ("an id that ansible owns", [host(1, id="all")], "hosts.0.id", "Ansible"),
    ("no MAC at all", [host(1, nics=[{"name": "e", "mac": "hello"}])], "hosts.0.nics.0.mac", "pattern"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("hosts", "field", "says"), [row[1:] for row in SLIPS], ids=[row[0] for row in SLIPS]
)
def test_a_slip_is_named(hosts: list[dict[str, Any]], field: str, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(inventory(*hosts))
    assert caught.value.field == field
    assert says in str(caught.value)


OVERLAPPING = {"management": "10.1.0.0/16", "compute": "10.1.4.0/24"}


def test_overlapping_networks_are_named() -> None:
    with pytest.raises(BadInput) as caught:
        parse(inventory(host(1, addresses={}), networks=OVERLAPPING))
    assert caught.value.field == "networks.compute"
    assert "networks.management" in caught.value.what


def test_a_wrong_mask_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        parse(inventory(host(1, addresses={}), networks={"management": "10.1.0.7/24"}))
    assert caught.value.field == "networks.management"


def test_an_unknown_field_is_named_with_the_likely_one() -> None:
    with pytest.raises(BadInput) as caught:
        parse(inventory(host(1, hostnam="x")))
    assert caught.value.field == "hosts.0.hostnam"
    assert "did you mean 'hostname'?" in caught.value.do


def test_a_key_given_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="is given twice"):
        parse("cluster: a\nhosts: []\ncluster: b\n")


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", "a: [", "hosts: []", "{}", "hosts: null", "\x00", "a: !!python/object:os.system x"]
)
def test_what_is_no_inventory_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


def test_a_shared_folder_is_absolute_and_depth_is_no_crash() -> None:
    with pytest.raises(BadInput) as caught:
        parse(inventory(host(1), shared_path="srv/storage"))
    assert caught.value.field == "shared_path"
    with pytest.raises(BadInput, match="is not valid YAML"):
        parse("[" * 5000)
