"""node exporter from a bundle made by apt, on hosts that have no network beyond their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from l1_podsys.api import Failed, Podsys, Settings, Unavailable

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
pytest.importorskip("ansible_runner", reason="needs ansible-runner (extra: ansible)")

PACKAGE = "prometheus-node-exporter"


@pytest.fixture(scope="module")
def bundle() -> Path:
    """The bundle in the cache, made on first use."""
    if shutil.which("apt-get") is None:
        pytest.skip("needs apt-get")
    try:
        return Podsys(Settings.load()).bundle([PACKAGE])[0]
    except (Failed, Unavailable) as problem:
        pytest.skip(f"apt cannot fetch {PACKAGE}: {problem}")


def test_the_bundle_holds_the_package_and_all_that_it_needs(bundle: Path) -> None:
    sums = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=bundle, check=False)
    assert sums.returncode == 0
    names = {path.name.split("_")[0] for path in bundle.glob("*.deb")}
    assert {PACKAGE, "libc6"} <= names


def test_it_is_installed_without_network_and_answers(bundle: Path, hosts: Any, tmp_path: Path) -> None:
    assert hosts.ssh(0, "ip route show default").strip() == "", "the host has a way out: this proves nothing"
    profile = {"name": "exporter", "bundle": str(bundle), "node_exporter": {"port": 9111}}
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump(profile))
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(hosts.inventory(profile="profile.yaml"))
    podsys = Podsys(Settings(home=tmp_path / "home"))
    run = podsys.apply(podsys.plan(inventory))
    assert run.failures() == []
    assert podsys.plan(inventory).changes == 0
    report = podsys.verify(inventory)
    urls = [endpoint.url for endpoint in report.endpoints]
    assert urls == [f"http://{address}:9111/metrics" for address in hosts.addresses]
    assert {c.verdict for c in report.checks if c.name == "metrics"} == {"pass"}
    assert report.nodes[0].versions[PACKAGE].startswith("1.")
    listening = hosts.ssh(0, "ss -Hltn 'sport = :9111'").split()[3]
    assert listening == f"{hosts.addresses[0]}:9111", "the exporter listens on the management address only"
