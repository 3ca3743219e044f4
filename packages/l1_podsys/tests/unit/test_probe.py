"""The probe: PCI Express registers as the specification lays them out, and a run on this machine."""

from __future__ import annotations

import grp
import json
import os
import pwd
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from l1_podsys.core.facts import Facts, parse_facts
from l1_podsys.core.planning.resources import digest_text
from l1_podsys.core.tuning import advise
from l1_podsys.probe import program
from l1_podsys.probe.hardware import pci_config

ACS_ID, EXPRESS_ID, MSI_ID = 0x000D, 0x10, 0x05


def config_space(*, payload: int, able: int, request: int, acs: int | None) -> bytes:
    """4,096 bytes: MSI, PCI Express at 0x70; AER, ACS at 0x148 (PCIe Base Specification 7.5, 7.7)."""
    data = bytearray(4096)
    data[0x34] = 0x50
    data[0x50], data[0x51] = MSI_ID, 0x70
    data[0x70], data[0x71] = EXPRESS_ID, 0
    struct.pack_into("<I", data, 0x74, able)
    struct.pack_into("<H", data, 0x78, payload << 5 | request << 12 | 0x10)
    struct.pack_into("<I", data, 0x100, 0x0001 | 2 << 16 | 0x148 << 20)
    if acs is not None:
        struct.pack_into("<I", data, 0x148, ACS_ID | 1 << 16)
        struct.pack_into("<H", data, 0x14E, acs)
    return bytes(data)


def test_payload_read_request_and_acs() -> None:
    found = pci_config(config_space(payload=1, able=2, request=5, acs=0x001D))
    assert found == {
        "max_payload": 256,
        "max_payload_supported": 512,
        "max_read_request": 4096,
        "relaxed_ordering": True,
        "acs_control": 0x1D,
    }
    assert "acs_control" not in pci_config(config_space(payload=0, able=0, request=2, acs=None))


@pytest.mark.parametrize("data", [b"", b"\xff" * 64, b"\xff" * 4096, bytes(63), bytes(4096)])
def test_a_broken_or_short_space_ends(data: bytes) -> None:
    assert isinstance(pci_config(data), dict)


def probe(request: dict[str, Any]) -> Facts:
    done = subprocess.run(
        [sys.executable, "-IS", "-"],
        input=program("facts", request),
        capture_output=True,
        text=True,
        check=True,
    )
    return parse_facts(done.stdout)


def test_it_answers_about_files(tmp_path: Path) -> None:
    same, other, secret, link = (tmp_path / name for name in ("same", "other", "secret", "link"))
    same.write_text("right\n")
    other.write_text("wrong\n")
    secret.write_text("hush")
    secret.chmod(0o600)
    link.symlink_to("same")
    block = tmp_path / "hosts"
    block.write_text("127.0.0.1 localhost\n# BEGIN podsys\n10.0.0.1 a\n# END podsys\nmore\n")
    digest = digest_text("right\n")
    files = {str(path): {"digest": digest} for path in (same, other, tmp_path / "gone", link)}
    files[str(secret)] = {"digest": "hmac:x", "secret": True}  # type: ignore[dict-item]
    files[str(block)] = {"digest": "x", "block": ["# BEGIN podsys", "# END podsys"]}  # type: ignore[dict-item]
    answers = probe({"files": files, "key": "00"}).answers.files
    assert (answers[str(same)].digest, answers[str(same)].text) == (digest, None)
    assert answers[str(other)].text == "wrong\n"
    assert answers[str(tmp_path / "gone")].kind == "absent"
    assert answers[str(link)].target == "same"
    assert answers[str(block)].text == "10.0.0.1 a\n"
    state = answers[str(secret)]
    assert (state.mode, state.text) == ("0600", None)
    assert state.digest is not None
    assert state.digest.startswith("hmac:")
    assert state.owner == pwd.getpwuid(os.geteuid()).pw_name
    assert state.group == grp.getgrgid(secret.stat().st_gid).gr_name


def test_it_answers_about_this_machine() -> None:
    facts = probe(
        {
            "sysctl": ["kernel.ostype", "no.such.setting"],
            "users": ["root", "no-such-user"],
            "mounts": ["/proc"],
        }
    )
    assert facts.cpu.cores == len(os.sched_getaffinity(0))
    assert facts.kernel == os.uname().release
    assert facts.answers.sysctl["kernel.ostype"].value == "Linux"
    assert facts.answers.sysctl["no.such.setting"].value is None
    root = facts.answers.users["root"]
    assert root is not None
    assert root.uid == 0
    assert facts.answers.users["no-such-user"] is None
    mount = facts.answers.mounts["/proc"]
    assert mount is not None
    assert mount.type == "proc"


def test_it_is_cheap() -> None:
    assert probe({}).cpu_s < 2


def device(**fields: Any) -> dict[str, Any]:
    return {
        "address": "0000:17:00.0",
        "class": "0302",
        "vendor": "10de",
        "device": "2330",
        "driver": "nvidia",
    } | fields


@pytest.mark.parametrize(
    ("pci", "cmdline", "names"),
    [
        ([device()], [], []),
        ([device(), device(**{"class": "0604", "address": "a", "acs_control": 0x1D})], [], ["pcie-acs"]),
        ([device(), device(**{"class": "0604", "address": "a", "acs_control": 0})], [], []),
        ([device(current_link_width="8", max_link_width="16")], [], ["pcie-link-width"]),
        ([device(max_payload=128, max_payload_supported=256)], [], ["pcie-max-payload"]),
        (
            [device(), device(**{"class": "0207", "vendor": "15b3", "max_read_request": 512})],
            [],
            ["pcie-max-read-request"],
        ),
        ([device()], ["intel_iommu=on"], ["iommu"]),
        ([device()], ["intel_iommu=on", "iommu=pt"], []),
        ([device(**{"class": "0604", "acs_control": 0x1D, "vendor": "8086"})], ["intel_iommu=on"], []),
    ],
)
def test_advice_from_facts(pci: list[dict[str, Any]], cmdline: list[str], names: list[str]) -> None:
    facts = parse_facts(
        json.dumps(
            {"schema": "podsys.facts/v1", "hostname": "n", "os": {"id": "d", "name": "D"}, "kernel": "6",
             "arch": "x", "cpu": {"cores": 1}, "memory": {"total_bytes": 1}, "python": "3",
             "pci": pci, "cmdline": cmdline}
        )
    )  # fmt: skip
    assert [advice.name for advice in advise(facts)] == names
