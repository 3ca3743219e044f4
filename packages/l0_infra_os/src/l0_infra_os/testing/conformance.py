"""Conformance kits: what every `Bmc`, `Fabric` and `ImageStore` must do, as pytest classes."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import pytest

from l0_infra_os._kit.problems import BadInput, NotFound
from l0_infra_os.ports import (
    MANAGEMENT,
    Bmc,
    BootOverride,
    Fabric,
    ImageStore,
    PowerState,
    Segment,
)


class BmcContract:
    """Subclass it and give a fixture `bmc` that is signed in at a machine which may be switched."""

    patience_s = 30.0

    def wait_for(self, bmc: Bmc, wanted: PowerState) -> None:
        deadline = time.monotonic() + self.patience_s
        while bmc.power() != wanted:
            assert time.monotonic() < deadline, f"never {wanted}"
            time.sleep(0.1)

    def test_it_names_the_machine(self, bmc: Bmc) -> None:
        system = bmc.inventory()
        assert system.uuid == system.uuid.lower() != ""
        assert system.serial
        assert system.nics
        assert all(re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", nic.mac) for nic in system.nics)
        assert bmc.inventory().uuid == system.uuid

    def test_power_goes_where_it_is_sent_and_twice_is_once(self, bmc: Bmc) -> None:
        bmc.set_power("off")
        self.wait_for(bmc, "off")
        bmc.set_power("on")
        self.wait_for(bmc, "on")
        bmc.set_power("on")
        assert bmc.power() == "on"
        bmc.set_power("off")
        self.wait_for(bmc, "off")

    def test_a_boot_override_answers_with_the_power_state(self, bmc: Bmc) -> None:
        bmc.set_power("off")
        self.wait_for(bmc, "off")
        for override in (BootOverride("network"), BootOverride("disk", "continuous")):
            assert bmc.set_boot(override) == "off"

    def test_it_works_on_after_close(self, bmc: Bmc) -> None:
        bmc.close()
        assert bmc.power() in ("on", "off", "changing")


class FabricContract:
    """Subclass it and give fixtures `fabric` and `macs`: three ports that may be moved."""

    red = Segment("kit-red-compute", "compute", 4001, "kit-red")
    blue = Segment("kit-blue-compute", "compute", 4002, "kit-blue")

    @pytest.fixture(autouse=True)
    def isolated(self, fabric: Fabric, macs: list[str]) -> None:
        fabric.apply(dict.fromkeys(macs))

    def test_an_isolated_port_is_seen_isolated(self, fabric: Fabric, macs: list[str]) -> None:
        assert fabric.observe(macs) == dict.fromkeys(macs)

    def test_a_port_is_seen_where_it_was_put(self, fabric: Fabric, macs: list[str]) -> None:
        fabric.apply({macs[0]: self.red, macs[1]: self.blue})
        assert fabric.observe(macs) == {macs[0]: self.red.name, macs[1]: self.blue.name, macs[2]: None}

    def test_twice_is_once(self, fabric: Fabric, macs: list[str]) -> None:
        for _ in range(2):
            fabric.apply({macs[0]: self.red})
        assert fabric.observe(macs[:1]) == {macs[0]: self.red.name}

    def test_a_port_moves_and_leaves(self, fabric: Fabric, macs: list[str]) -> None:
        fabric.apply({macs[0]: self.red, macs[1]: self.red})
        fabric.apply({macs[0]: self.blue})
        assert fabric.observe(macs[:2]) == {macs[0]: self.blue.name, macs[1]: self.red.name}
        fabric.apply({macs[0]: None})
        assert fabric.observe(macs[:2]) == {macs[0]: None, macs[1]: self.red.name}

    def test_an_unknown_port_is_absent_not_isolated(self, fabric: Fabric, macs: list[str]) -> None:
        assert "02:ff:ff:ff:ff:fe" not in fabric.observe(["02:ff:ff:ff:ff:fe", macs[0]])

    def test_the_controller_stands_in_the_management_network(self, fabric: Fabric) -> None:
        import ipaddress

        network = ipaddress.ip_network(fabric.management.network)
        assert ipaddress.ip_address(fabric.management.controller) in network
        assert MANAGEMENT.kind == "management"


class ImageStoreContract:
    """Subclass it and give a fixture `images`: an empty store."""

    def test_what_goes_in_comes_out_under_its_digest(self, images: ImageStore, tmp_path: Path) -> None:
        file = tmp_path / "root.tar.zst"
        file.write_bytes(b"not really a tar" * 1000)
        digest = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
        image = images.add("one", file, format="tar.zst")
        assert (image.digest, image.size_bytes) == (digest, 16000)
        assert images.get("one") == images.get(digest)
        assert images.path(digest).read_bytes() == file.read_bytes()
        images.verify(digest)
        assert [row.name for row in images.list()] == ["one"]

    def test_another_digest_than_promised_is_refused_whole(self, images: ImageStore, tmp_path: Path) -> None:
        file = tmp_path / "root.tar.zst"
        file.write_bytes(b"x")
        with pytest.raises(BadInput):
            images.add("two", file, format="tar.zst", digest="sha256:" + "0" * 64)
        assert images.list() == []

    def test_an_unknown_image_is_not_found(self, images: ImageStore) -> None:
        with pytest.raises(NotFound):
            images.get("nothing")
        with pytest.raises(NotFound):
            images.path("sha256:" + "1" * 64)

    def test_a_removed_name_is_gone(self, images: ImageStore, tmp_path: Path) -> None:
        file = tmp_path / "root.tar.zst"
        file.write_bytes(b"y")
        images.add("three", file, format="tar.zst")
        images.remove("three")
        assert images.list() == []
