"""Machines come in all together or not at all."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from l0_infra_os._kit.problems import BadInput, Unauthorized, Unavailable
from l0_infra_os.api import Declared, InfraOs
from l0_infra_os.testing import Farm
from l0_infra_os.testing.farm import PASSWORD, USERNAME, machines


def silent_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_machines_get_the_names_their_bmcs_give(infra: InfraOs, farm: Farm) -> None:
    done = infra.enroll(farm.addresses, username=USERNAME, password=PASSWORD)
    assert done.new == ["m1", "m2", "m3", "m4"]
    assert [node.state for node in infra.nodes()] == ["enrolled"] * 4
    again = infra.enroll(farm.addresses, username=USERNAME, password=PASSWORD)
    assert (again.new, again.known) == ([], ["m1", "m2", "m3", "m4"])


def test_in_a_range_silent_addresses_are_skipped(infra: InfraOs, farm: Farm) -> None:
    port = farm.machines["m2"].port
    done = infra.enroll([f"127.0.0.1:{port}-{port + 3}"], username=USERNAME, password=PASSWORD)
    assert "m2" in done.new
    assert len(done.new) + len(done.silent) == 4


def test_an_address_by_itself_must_answer_and_nothing_is_taken_in(infra: InfraOs, farm: Farm) -> None:
    address = f"127.0.0.1:{silent_port()}"
    with pytest.raises(Unavailable, match=address):
        infra.enroll([*farm.addresses, address], username=USERNAME, password=PASSWORD)
    assert infra.nodes() == []


def test_a_wrong_password_takes_nothing_in(infra: InfraOs, farm: Farm) -> None:
    with pytest.raises(Unauthorized):
        infra.enroll(farm.addresses, username=USERNAME, password="wrong")
    assert infra.nodes() == []
    assert not infra.settings.credentials_file.exists()


def test_passwords_lie_in_a_private_file_and_nowhere_else(enrolled: InfraOs) -> None:
    file = enrolled.settings.credentials_file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert PASSWORD in file.read_text()
    for other in enrolled.settings.state_dir.rglob("*"):
        if other.is_file() and other != file:
            assert PASSWORD.encode() not in other.read_bytes(), other


@pytest.mark.parametrize(
    ("rows", "field", "text"),
    [
        (
            [Declared("h:1", macs=("02:00:00:00:00:01",)), Declared("h:2", macs=("02:00:00:00:00:01",))],
            "macs",
            "02:00:00:00:00:01 is declared for h:1 and for h:2",
        ),
        ([Declared("h:1", macs=("nonsense",))], "macs", "is no MAC address"),
        (
            [Declared("h:1", macs=("02:00:00:00:00:01", "02:00:00:00:00:01"))],
            "macs",
            "02:00:00:00:00:01 is declared twice for h:1",
        ),
        ([Declared(" ")], "address", "a machine has no address"),
        ([Declared("h:1"), Declared("h:1")], "address", "'h:1' is declared twice"),
        ([Declared("h:1", "a"), Declared("h:2", "a")], "name", "'a' is declared twice"),
    ],
)
def test_a_declared_inventory_that_contradicts_itself(
    infra: InfraOs, rows: list[Declared], field: str, text: str
) -> None:
    with pytest.raises(BadInput) as caught:
        infra.enroll(username="u", password="p", declared=rows)
    assert (caught.value.field, text in caught.value.what) == (field, True)


def test_a_declared_machine_is_checked_against_what_its_bmc_says(infra: InfraOs, farm: Farm) -> None:
    machine = farm.machines["m1"]
    wrong = Declared(machine.address, "db-1", ("02:00:00:00:00:99",))
    with pytest.raises(BadInput, match="has no port with MAC 02:00:00:00:00:99"):
        infra.enroll(username=USERNAME, password=PASSWORD, declared=[wrong])
    right = Declared(machine.address, "db-1", machine.macs, "leaf9", "rack9")
    assert infra.enroll(username=USERNAME, password=PASSWORD, declared=[right]).new == ["db-1"]
    assert (infra.nodes()[0].leaf, infra.nodes()[0].rack) == ("leaf9", "rack9")


def test_two_machines_with_one_mac_are_refused_by_name(infra: InfraOs, lab_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("sushy_tools")
    fleet = machines(2)
    fleet[1].macs = fleet[0].macs
    with Farm(tmp_path / "twins", fleet, boot_url_file=lab_dir / "boot-url") as farm:
        with pytest.raises(BadInput, match="both report MAC"):
            infra.enroll(farm.addresses, username=USERNAME, password=PASSWORD)
    assert infra.nodes() == []


def test_a_forgotten_node_and_its_password_are_gone(enrolled: InfraOs) -> None:
    address = enrolled.nodes()[0].bmc
    enrolled.forget("m1")
    assert [node.id for node in enrolled.nodes()] == ["m2", "m3", "m4"]
    assert address is not None
    assert address not in enrolled.settings.credentials_file.read_text()
