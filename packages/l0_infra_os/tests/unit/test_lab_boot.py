"""What a deploy order turns into: the node's own files, shell variables, iPXE scripts, reservations."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l0_infra_os._kit.problems import NotFound, Unavailable
from l0_infra_os.backends.boot import open_boot, personality, shell_order
from l0_infra_os.ports import BootHost

ORDER: dict[str, Any] = {
    "action": "deploy",
    "token": "one-boot-token",
    "image": {
        "url": "http://10.71.3.1:8479/images/sha256:00",
        "sha256": "00" * 32,
        "format": "tar.zst",
        "size": 5,
    },
    "hostname": "node-7",
    "ssh_keys": ["ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two\n"],
    "addresses": {
        "management": {"mac": "02:00:00:00:01:00", "address": "10.71.3.11/24", "gateway": "10.71.3.1"},
        "compute": {"mac": "02:00:00:00:01:01", "address": "10.72.2.11/24"},
    },
    "checkin_url": "http://10.71.3.1:8479/boot/02:00:00:00:01:00/checkin",
}


@pytest.fixture
def archive() -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(personality(ORDER)))


def text_of(archive: tarfile.TarFile, name: str) -> str:
    stream = archive.extractfile(name)
    assert stream is not None
    return stream.read().decode()


def test_the_node_has_its_name_its_keys_and_its_addresses(archive: tarfile.TarFile) -> None:
    assert text_of(archive, "etc/hostname") == "node-7\n"
    assert text_of(archive, "root/.ssh/authorized_keys") == "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n"
    management = text_of(archive, "etc/systemd/network/10-mgmt0.network")
    assert "MACAddress=02:00:00:00:01:00" in management
    assert "Address=10.71.3.11/24" in management
    assert "Gateway=10.71.3.1" in management
    assert "Gateway" not in text_of(archive, "etc/systemd/network/10-cmp0.network")
    assert "etc/systemd/network/10-sto0.network" not in archive.getnames()


def test_secrets_are_for_root_only(archive: tarfile.TarFile) -> None:
    with_token = [m for m in archive if m.isfile() and "one-boot-token" in text_of(archive, m.name)]
    assert [(m.name, m.mode) for m in with_token] == [("etc/ogai/checkin.json", 0o600)]
    assert archive.getmember("etc/ogai").mode == 0o700
    assert archive.getmember("root/.ssh").mode == 0o700
    assert archive.getmember("root/.ssh/authorized_keys").mode == 0o600


def test_it_checks_in_at_every_start(archive: tarfile.TarFile) -> None:
    report = json.loads(text_of(archive, "etc/ogai/checkin.json"))
    assert report["url"] == ORDER["checkin_url"]
    assert report["nics"] == {"management": "mgmt0", "compute": "cmp0"}
    link = archive.getmember("etc/systemd/system/multi-user.target.wants/ogai-checkin.service")
    assert link.linkname == "/etc/systemd/system/ogai-checkin.service"
    compile(text_of(archive, "usr/local/lib/ogai/checkin.py"), "checkin.py", "exec")


def test_the_same_order_gives_the_same_bytes() -> None:
    assert personality(ORDER) == personality(json.loads(json.dumps(ORDER)))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_a_shell_reads_back_what_the_order_says(token: str) -> None:
    script = shell_order({**ORDER, "token": token}) + 'printf "%s" "$OGAI_TOKEN"'
    done = subprocess.run(["sh", "-euc", script], capture_output=True, check=True)
    assert done.stdout.decode() == token


def test_network_boot_is_for_reserved_machines(tmp_path: Path) -> None:
    boot = open_boot(tmp_path)
    boot.reserve(
        [BootHost("02:00:00:00:01:00", "10.71.3.11/24", "n1")], boot_url="http://10.71.3.1:8479/boot"
    )
    boot.reserve([BootHost("02:00:00:00:02:00", "10.71.3.12", "n2")], boot_url="http://10.71.3.1:8479/boot")
    assert json.loads((tmp_path / "reservations.json").read_text()) == {"02:00:00:00:02:00": "10.71.3.12/24"}
    assert (tmp_path / "dhcp-hosts").read_text() == "02:00:00:00:02:00,10.71.3.12,n2,infinite\n"
    assert (tmp_path / "boot-url").read_text() == "http://10.71.3.1:8479/boot\n"
    with pytest.raises(Unavailable, match="no lab"):
        open_boot(tmp_path / "gone").reserve([], boot_url="x")


def test_the_ipxe_script_names_the_initramfs_twice(tmp_path: Path) -> None:
    """Without initrd= on its command line the kernel finds none under UEFI with Debian's iPXE."""
    url = "http://10.71.3.1:8479/boot/02:00:00:00:01:00.sh"
    script = open_boot(tmp_path).script(order_url=url, local=False).splitlines()
    assert script[0] == "#!ipxe"
    assert "initrd=agent.img" in script[1]
    assert f"ogai.order={url}" in script[1]
    assert script[2].split()[-1] == "http://10.71.3.1:8479/boot/files/agent.img"
    assert open_boot(tmp_path).script(order_url=url, local=True).splitlines() == ["#!ipxe", "exit 0"]


def test_only_the_agents_files_are_served(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "vmlinuz").write_bytes(b"kernel")
    (tmp_path / "lab.json").write_text("{}")
    boot = open_boot(tmp_path)
    assert boot.file("vmlinuz").read_bytes() == b"kernel"
    for name in ("../lab.json", "lab.json", "agent.img"):
        with pytest.raises(NotFound):
            boot.file(name)
