"""The whole of this layer on machines that boot Debian: by the command line, as its README says."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from l0_infra_os.api import Lab
from l0_infra_os.cli import app

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
TOOLS = ("systemd-nspawn", "ip", "nft", "ssh", "ssh-keygen", "mmdebstrap")


def run(*words: str | Path) -> str:
    """A command that must succeed, in this process: its imports are paid once."""
    done = typer.testing.CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, f"{words}: {done.output} {done.exception}"
    return done.stdout


def run_apart(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    command = [sys.executable, "-m", "l0_infra_os", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def answer(*words: str | Path) -> Any:
    return json.loads(run(*words, "--json"))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lab with five machines, enrolled and inspected, and two tenants."""
    if os.geteuid() != 0:
        pytest.skip("needs root for network namespaces")
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    pytest.importorskip("sushy_tools", reason="needs sushy-tools: pip install l0-infra-os[lab]")
    home = tmp_path_factory.mktemp("flow")
    (home / "storage").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OGAI_HOME", str(home))
        patch.setenv("OGAI_L0_PROVISIONING_PORT", "8479")
        lab = Lab(home / "l0" / "lab")
        lab.up(
            machines=5, storage=home / "storage", attached=True
        )  # gone with this process, whatever happens
        try:
            password = home / "password"
            password.write_text(lab.password)
            run("enroll", *lab.endpoints, "--username", lab.username, "--password-file", password)
            run("inspect")
            run("image", "build")
            run("tenant", "add", "red", "--quota", "3")
            run("tenant", "add", "blue")
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / "key"], check=True)
            yield home
        finally:
            lab.down()


def provision(room: Path, tenant: str, nodes: int) -> tuple[str, list[dict[str, Any]]]:
    lease = answer("lease", tenant, "--nodes", str(nodes))[0]["id"]
    run("provision", lease, "--image", "debian", "--ssh-key", room / "key.pub")
    return lease, json.loads(run("inventory", "--tenant", tenant))["nodes"]


def ssh(room: Path, node: dict[str, Any], command: str) -> subprocess.CompletedProcess[str]:
    options = [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "BatchMode=yes",
        "ConnectTimeout=5",
    ]
    flags = [word for option in options for word in ("-o", option)]
    target = f"root@{node['addresses']['management']}"
    return subprocess.run(
        ["ssh", "-q", *flags, "-i", str(room / "key"), target, command],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.fixture
def released(room: Path) -> Iterator[None]:
    """Whatever a test leased is free again after it."""
    yield
    for lease in answer("leases"):
        run("release", lease["id"])
    assert {row["state"] for row in answer("nodes")} == {"available"}


@pytest.mark.usefixtures("released")
def test_two_tenants_get_machines_that_reach_their_own_and_nobody_else(room: Path) -> None:
    _, red = provision(room, "red", 2)
    _, blue = provision(room, "blue", 2)
    assert {node["location"]["leaf"] for node in red} == {"leaf2"}  # the smallest leaf that holds both
    assert len({node["location"]["leaf"] for node in blue}) == 1
    hostname = ssh(room, red[0], "hostname; cat /etc/os-release").stdout
    assert hostname.startswith(f"{red[0]['hostname']}\n")
    assert "Debian" in hostname
    ping = "ping -c 1 -W 2 -q {} >/dev/null && echo reached || echo not"
    for kind in ("compute", "storage"):
        assert ssh(room, red[0], ping.format(red[1]["addresses"][kind])).stdout == "reached\n"
        assert ssh(room, red[0], ping.format(blue[0]["addresses"][kind])).stdout == "not\n"
    assert ssh(room, red[0], ping.format(blue[0]["addresses"]["management"])).stdout == "not\n"


@pytest.mark.usefixtures("released")
def test_a_tenants_data_stays_its_own_and_is_gone_from_the_machine_after_release(room: Path) -> None:
    lease, (node,) = provision(room, "red", 1)
    assert ssh(room, node, "echo secret > /root/secret; echo shared > /srv/storage/shared").returncode == 0
    assert (room / "storage" / "red" / "shared").read_text() == "shared\n"
    run("release", lease)
    evidence = [row for row in answer("audit") if row["verb"] == "erased"][-1]
    assert (evidence["subject"], evidence["detail"]["verified"]) == (node["id"], True)
    _, nodes = provision(room, "blue", 5)  # that very machine among them
    again = next(row for row in nodes if row["id"] == node["id"])
    seen = ssh(room, again, "ls -A /srv/storage; cat /root/secret /srv/storage/shared; echo end")
    assert seen.stdout == "end\n"


@pytest.mark.usefixtures("released")
def test_killed_in_the_middle_the_same_command_goes_on(room: Path) -> None:
    lease = answer("lease", "red", "--nodes", "3")[0]["id"]
    words = ["provision", lease, "--image", "debian", "--ssh-key", str(room / "key.pub")]
    with subprocess.Popen([sys.executable, "-m", "l0_infra_os", *words], stderr=subprocess.PIPE) as first:
        deadline = time.monotonic() + 60
        while answer("leases")[0]["state"] != "provisioning":
            assert time.monotonic() < deadline
        first.send_signal(signal.SIGKILL)
    run(*words)
    assert answer("leases")[0]["state"] == "active"


@pytest.mark.usefixtures("released")
def test_power_off_through_the_bmc_takes_the_machine_away_and_on_brings_it_back(room: Path) -> None:
    _, (node,) = provision(room, "red", 1)
    assert answer("power", node["id"], "off") == [{"node": node["id"], "power": "off"}]
    assert ssh(room, node, "true").returncode != 0
    run("power", node["id"], "on")
    deadline = time.monotonic() + 60
    while ssh(room, node, "true").returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.usefixtures("released")
def test_a_bmc_that_ignores_the_boot_override_costs_that_node_only(room: Path) -> None:
    run("lab", "fault", "m3", "bmc-ignores-boot")
    try:
        lease = answer("lease", "red", "--nodes", "2")[0]
        assert "m3" in lease["members"]
        run("provision", lease["id"], "--image", "debian", "--ssh-key", room / "key.pub")
        lease = answer("leases")[0]
        assert (lease["state"], "m3" in lease["members"]) == ("active", False)
        row = next(row for row in answer("nodes") if row["id"] == "m3")
        assert row["state"] == "quarantined"
        assert "did not keep the boot override" in row["problem"]
    finally:
        run("lab", "fault", "m3", "--clear")
        run("repair", "m3")


def test_a_wrong_password_and_a_silent_address_exit_with_what_to_do(room: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong\n")
    endpoint = answer("lab", "status")[0]["bmc"]
    refused = run_apart("enroll", endpoint, "-u", "admin", "--password-file", wrong)
    assert (refused.returncode, "refuses this user name or password" in refused.stderr) == (2, True)
    silent = run_apart("enroll", "127.0.0.1:9", "-u", "admin", "--password-file", wrong)
    assert (silent.returncode, "does not answer" in silent.stderr) == (3, True)
    assert "Traceback" not in refused.stderr + silent.stderr
