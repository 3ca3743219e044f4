"""Redfish against sushy-tools' emulator: what a BMC does wrong is told, and sessions are reused."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from l0_infra_os._kit.problems import BadInput, Failed, Unauthorized, Unavailable
from l0_infra_os.backends.bmc.address import service_url, split_address
from l0_infra_os.backends.bmc.quirks import quirks_of
from l0_infra_os.backends.bmc.redfish import RedfishBmc, RedfishConnector
from l0_infra_os.ports import BootOverride, Credentials
from l0_infra_os.testing import BmcContract, Farm
from l0_infra_os.testing.farm import PASSWORD, USERNAME

RIGHT = Credentials(USERNAME, PASSWORD)


class TestRedfish(BmcContract):
    @pytest.fixture
    def bmc(self, farm: Farm) -> Iterator[RedfishBmc]:
        connector = RedfishConnector(timeout_s=10)
        yield connector.connect(farm.addresses[0], RIGHT)
        connector.close()


@pytest.fixture
def bmc(farm: Farm) -> Iterator[RedfishBmc]:
    opened = RedfishBmc(farm.addresses[0], RIGHT, timeout_s=10)
    yield opened
    opened.close()


def test_a_wrong_password_is_told_as_such_and_not_shown(farm: Farm) -> None:
    wrong = RedfishBmc(farm.addresses[0], Credentials(USERNAME, "not the pass word"), timeout_s=10)
    with pytest.raises(Unauthorized) as caught:
        wrong.inventory()
    assert farm.addresses[0] in caught.value.what
    assert "not the pass word" not in f"{caught.value}{caught.value.__cause__}{wrong.credentials}"


def test_nobody_at_the_address_is_told_within_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    started = time.monotonic()
    with pytest.raises(Unavailable, match="does not answer") as caught:
        RedfishBmc(address, RIGHT, timeout_s=5).power()
    assert time.monotonic() - started < 5
    assert caught.value.why == "connection refused"


def test_one_session_for_many_calls(farm: Farm, bmc: RedfishBmc) -> None:
    bmc.power()
    before = farm.requests()
    for _ in range(5):
        bmc.power()
    after = farm.requests()
    assert after["GET"] - before["GET"] == 5
    others = {method: after[method] - before.get(method, 0) for method in after if method != "GET"}
    assert not any(others.values())


def test_the_connector_keeps_one_session_for_each_address(farm: Farm) -> None:
    connector = RedfishConnector(timeout_s=10)
    first = connector.connect(farm.addresses[0], RIGHT)
    assert connector.connect(farm.addresses[0], RIGHT) is first
    assert connector.connect(farm.addresses[0], Credentials("other", "x")) is not first
    connector.close()


def test_setting_the_boot_is_two_requests(farm: Farm, bmc: RedfishBmc) -> None:
    bmc.power()
    before = farm.requests()
    bmc.set_boot(BootOverride("network"))
    after = farm.requests()
    assert (after["PATCH"] - before.get("PATCH", 0), after["GET"] - before["GET"]) == (1, 1)


def test_an_override_that_the_bmc_does_not_keep_is_a_failure(farm: Farm, bmc: RedfishBmc) -> None:
    farm.fault("m1", "bmc-ignores-boot")
    with pytest.raises(Failed, match="did not keep the boot override") as caught:
        bmc.set_boot(BootOverride("network"))
    assert "asked for Pxe Once, it reads back Hdd" in caught.value.why


def test_a_precondition_is_met_on_the_second_try(farm: Farm, bmc: RedfishBmc) -> None:
    farm.fault("m1", "precondition", 1)
    assert bmc.set_boot(BootOverride("network")) == "off"


def test_a_bmc_that_fails_is_told_with_its_answer(farm: Farm, bmc: RedfishBmc) -> None:
    bmc.power()
    farm.fault("m1", "bmc-dead")
    with pytest.raises(Failed, match="failed to power off") as caught:
        bmc.set_power("off")
    assert "503" in caught.value.why


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("10.0.0.1", ("", "10.0.0.1", 443)),
        ("10.0.0.1:8000", ("", "10.0.0.1", 8000)),
        ("http://bmc", ("http", "bmc", 80)),
        ("https://[::1]:8443", ("https", "::1", 8443)),
        ("[::1]", ("", "::1", 443)),
    ],
)
def test_addresses(address: str, parts: tuple[str, str, int]) -> None:
    assert split_address(address) == parts


def test_an_address_with_letters_for_a_port() -> None:
    with pytest.raises(BadInput):
        split_address("host:port")


def test_a_password_goes_in_clear_only_on_loopback_or_by_word(farm: Farm) -> None:
    assert service_url(farm.addresses[0], 2) == f"http://{farm.addresses[0]}"
    assert service_url("10.255.255.1:8000", 2) == "https://10.255.255.1:8000"
    assert service_url("http://10.255.255.1", 2) == "http://10.255.255.1:80"


def test_quirks_are_found_by_the_start_of_the_makers_name() -> None:
    assert quirks_of("Supermicro Inc.").send_mode
    assert not quirks_of("Sushy Emulator").duration_reads_back
    assert quirks_of(None) == quirks_of("Dell Inc.")
