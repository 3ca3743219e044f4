"""Where ports have to be, and that nothing goes on from unknown."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l0_infra_os._kit.problems import BadInput, Conflict, Unavailable
from l0_infra_os.core.isolation import (
    MANAGEMENT,
    AddressPlan,
    Port,
    TenantSegments,
    desired,
    must_hold,
    tenant_number,
    violations,
)
from l0_infra_os.core.lifecycle import CONNECTED, NodeState

PORTS = [Port("m", "management"), Port("c", "compute"), Port("s", "storage")]
RED, BLUE = TenantSegments("red", 50), TenantSegments("blue", 51)
PLAN = AddressPlan("10.71.3.0/24", "10.80.0.0/12", "10.96.0.0/12")


@pytest.mark.parametrize("state", list(NodeState))
def test_tenant_ports_are_connected_in_three_states_only(state: NodeState) -> None:
    wanted = desired(state, PORTS, RED)
    assert wanted["m"] == MANAGEMENT
    if state in CONNECTED:
        assert [wanted[mac] and wanted[mac].name for mac in "cs"] == ["red-compute", "red-storage"]  # type: ignore[union-attr]
    else:
        assert (wanted["c"], wanted["s"]) == (None, None)


def test_tenants_share_no_segment_and_no_number() -> None:
    segments = [tenant.of(kind) for tenant in (RED, BLUE) for kind in ("compute", "storage")]
    assert len({segment.number for segment in segments}) == 4
    assert len({segment.name for segment in segments}) == 4


def test_unknown_is_not_isolated() -> None:
    wanted = desired(NodeState.DETACHING, PORTS, RED)
    assert violations(wanted, {"m": "management", "c": None, "s": None}) == []
    assert violations(wanted, {"m": "management", "c": None}) == ["port s was not seen"]
    with pytest.raises(Unavailable) as caught:
        must_hold(wanted, {"m": "management", "c": "blue-compute", "s": None})
    assert "port c is on blue-compute, not on no segment" in caught.value.why


@given(st.sets(st.integers(50, 2046), max_size=50))
def test_a_new_tenants_number_is_free_and_fits_a_vlan(taken: set[int]) -> None:
    number = tenant_number(taken)
    assert number not in taken
    assert number * 2 >= 100
    assert number * 2 + 1 <= 4094


def test_numbers_run_out_with_a_clear_word() -> None:
    with pytest.raises(Conflict, match="no segment number is free"):
        tenant_number(range(4096))


@given(st.integers(1, 4000), st.integers(50, 300), st.integers(50, 300))
def test_two_tenants_networks_never_overlap(node: int, one: int, other: int) -> None:
    mine = ipaddress.ip_interface(PLAN.address("compute", node, one))
    theirs = ipaddress.ip_interface(PLAN.address("compute", node, other))
    assert mine.network.overlaps(theirs.network) == (one == other)
    assert mine.ip in ipaddress.ip_network("10.80.0.0/12")


@pytest.mark.parametrize(
    ("kind", "number", "tenant", "address"),
    [
        ("management", 1, None, "10.71.3.11/24"),
        ("management", 244, None, "10.71.3.254/24"),
        ("compute", 1, 50, "10.80.0.11/20"),
        ("storage", 2, 51, "10.96.16.12/20"),
    ],
)
def test_addresses(kind: str, number: int, tenant: int | None, address: str) -> None:
    assert PLAN.address(kind, number, tenant) == address  # type: ignore[arg-type]


def test_a_full_network_and_a_wrong_one_say_so() -> None:
    with pytest.raises(Conflict, match="no address for node 245"):
        PLAN.address("management", 245)
    with pytest.raises(Conflict, match="no room for one more tenant"):
        PLAN.address("compute", 1, 50 + 256)
    with pytest.raises(BadInput) as caught:
        AddressPlan("10.71.3.0/24", "10.80.0.0/99", "10.96.0.0/12").address("compute", 1, 50)
    assert caught.value.field == "compute_network"
