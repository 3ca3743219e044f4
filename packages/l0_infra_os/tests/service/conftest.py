"""A farm of emulated machines: real Redfish, agents that speak the in-band protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from l0_infra_os.api import InfraOs
from l0_infra_os.testing import Farm
from l0_infra_os.testing.farm import PASSWORD, USERNAME, machines

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFarmFarmFarmFarmFarmFarmFarmFarmFarmFarmFarm test"


@pytest.fixture(scope="session")
def running_farm(lab_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    pytest.importorskip("sushy_tools", reason="needs sushy-tools: pip install l0-infra-os[lab]")
    folder = tmp_path_factory.mktemp("farm")
    with Farm(folder, machines(4), boot_url_file=lab_dir / "boot-url") as running:
        yield running


@pytest.fixture
def farm(running_farm: Farm) -> Farm:
    """Four machines as delivered."""
    running_farm.reset()
    return running_farm


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
