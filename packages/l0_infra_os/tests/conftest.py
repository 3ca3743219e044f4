"""Seeds, and a site on a farm of emulated machines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from l0_infra_os.api import InfraOs, Settings
from l0_infra_os.ports import BootHost

SOAK = os.environ.get("OGAI_SOAK") == "1"
settings.register_profile(
    "ogai",
    max_examples=500 if SOAK else 50,
    stateful_step_count=60 if SOAK else 30,
    deadline=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    print_blob=True,
)
settings.load_profile("ogai")


class NoNetworkBoot:
    """Farm machines ask for their orders without DHCP."""

    def __init__(self) -> None:
        self.hosts: list[BootHost] = []

    def reserve(self, hosts: list[BootHost], *, boot_url: str) -> None:
        self.hosts = list(hosts)

    def script(self, *, order_url: str, local: bool) -> str:
        return f"#!ipxe\n{'exit' if local else 'chain ' + order_url}\n"

    def file(self, name: str) -> Path:
        raise FileNotFoundError(name)


@pytest.fixture(scope="session")
def lab_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the boot service's address is written for machines that outlive a test."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture
def l0_settings(tmp_path: Path, lab_dir: Path) -> Settings:
    return Settings.load(
        home=tmp_path,
        lab_dir=lab_dir,
        provisioning_port=0,
        retry_s=0.05,
        power_timeout_s=5.0,
        boot_timeout_s=10.0,
        attempts=2,
    )


@pytest.fixture
def image_file(tmp_path: Path) -> Path:
    path = tmp_path / "system.tar.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + os.urandom(200_000))
    return path


@pytest.fixture
def infra(l0_settings: Settings) -> Iterator[InfraOs]:
    from l0_infra_os.testing import MemoryFabric

    with InfraOs(l0_settings, given_fabric=MemoryFabric(), given_boot=NoNetworkBoot()) as site:
        yield site
