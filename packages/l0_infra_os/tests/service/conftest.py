"""A farm of emulated machines: real Redfish, agents that speak the in-band protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from l0_infra_os.api import InfraOs
from l0_infra_os.testing import Farm
from l0_infra_os.testing.farm import PASSWORD, USERNAME, machines

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFarmFarmFarmFarmFarmFarmFarmFarmFarmFarmFarm test"


@pytest.fixture
def farm(home: Path, tmp_path: Path) -> Iterator[Farm]:
    pytest.importorskip("sushy_tools", reason="needs sushy-tools: pip install l0-infra-os[lab]")
    with Farm(tmp_path / "farm", machines(4), boot_url_file=home / "l0" / "lab" / "boot-url") as running:
        yield running


@pytest.fixture
def enrolled(infra: InfraOs, farm: Farm) -> InfraOs:
    infra.enroll(farm.addresses, username=USERNAME, password=PASSWORD)
    return infra


@pytest.fixture
def ready(enrolled: InfraOs, image_file: Path) -> InfraOs:
    """Four available nodes, a tenant and an image."""
    nodes = enrolled.inspect()
    assert [node.state for node in nodes] == ["available"] * 4
    enrolled.create_tenant("demo")
    enrolled.add_image("debian", image_file, format="tar.zst")
    return enrolled
