"""Real hosts for the tests: systemd in systemd-nspawn, each in a network namespace of its own.

Needs root and a few programs; a test that lacks them is skipped by name.  The Debian root is built
once by mmdebstrap and kept in the cache.  All traffic stays inside namespaces made here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = ("systemd-nspawn", "mmdebstrap", "ip", "ssh", "ssh-keygen", "mount")
PACKAGES = "systemd,systemd-sysv,dbus,openssh-server,python3,iproute2,sudo,tzdata"
MASKED = [
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-logind.service",
    "console-getty.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "systemd-networkd-wait-online.service",
    "e2scrub_all.timer",
    "fstrim.timer",
    "dpkg-db-backup.timer",
    "systemd-journal-flush.service",
]
COUNT = 3


def call(*words: str | Path, check: bool = True) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{words}: {done.stderr}")
    return done.stdout


def cached_root() -> Path:
    """The tarball of the hosts' root, built on first use."""
    cache = (
        os.environ.get("OGAI_CACHE")
        or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai"
    )
    tarball = Path(cache) / "images" / "podsys-test-bookworm.tar"
    if not tarball.exists():
        tarball.parent.mkdir(parents=True, exist_ok=True)
        new = tarball.with_name(f".{os.getpid()}.tar")
        done = subprocess.run(
            ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(new)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"mmdebstrap cannot build a Debian root: {done.stderr.strip()[-200:]}")
        new.rename(tarball)
    return tarball


class Hosts:
    """A few machines with SSH; `addresses[i]` is reachable from here as root with `key`."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder = folder
        self.number = number
        self.name = f"pst{number}"
        self.key = folder / "id_ed25519"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.addresses: list[str] = []
        self.mounts: list[Path] = []

    def up(self, count: int) -> None:
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key)
        base = self.folder / "base"
        base.mkdir()
        call("tar", "-C", base, "-xf", cached_root())
        self._prepare(base)
        self._network()
        for index in range(count):
            self._start(base, index)
        for address in self.addresses:
            self._wait(address)

    def _prepare(self, base: Path) -> None:
        for unit in MASKED:
            link = base / "etc/systemd/system" / unit
            link.unlink(missing_ok=True)
            link.symlink_to("/dev/null")
        keys = base / "root/.ssh"
        keys.mkdir(mode=0o700, exist_ok=True)
        (keys / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        (base / "etc/machine-id").write_text("")

    def _network(self) -> None:
        fabric = f"{self.name}-fabric"
        call("ip", "netns", "add", fabric)
        call("ip", "-n", fabric, "link", "add", "br0", "type", "bridge")
        call("ip", "-n", fabric, "link", "set", "br0", "up")
        call("ip", "link", "add", f"{self.name}h", "type", "veth", "peer", "name", "up0", "netns", fabric)
        call("ip", "-n", fabric, "link", "set", "up0", "master", "br0", "up")
        call("ip", "address", "add", f"10.72.{self.number}.1/24", "dev", f"{self.name}h")
        call("ip", "link", "set", f"{self.name}h", "up")

    def _start(self, base: Path, index: int) -> None:
        address = f"10.72.{self.number}.{11 + index}"
        space, fabric = f"{self.name}-{index}", f"{self.name}-fabric"
        call("ip", "netns", "add", space)
        call(
            "ip",
            "-n",
            space,
            "link",
            "add",
            "mgmt0",
            "type",
            "veth",
            "peer",
            "name",
            f"p{index}",
            "netns",
            fabric,
        )
        call("ip", "-n", fabric, "link", "set", f"p{index}", "master", "br0", "up")
        call("ip", "-n", space, "address", "add", f"{address}/24", "dev", "mgmt0")
        call("ip", "-n", space, "link", "set", "mgmt0", "up")
        call("ip", "-n", space, "link", "set", "lo", "up")
        merged = self.folder / f"m{index}"
        for name in ("upper", "work"):
            (self.folder / f"{name}{index}").mkdir()
        merged.mkdir()
        options = f"lowerdir={base},upperdir={self.folder}/upper{index},workdir={self.folder}/work{index}"
        call("mount", "-t", "overlay", "overlay", "-o", options, merged)
        self.mounts.append(merged)
        (merged / "etc/hostname").write_text(f"n{index + 1}\n")
        log = open(self.folder / f"console{index}.log", "wb")  # noqa: SIM115
        with log:
            command = ["systemd-nspawn", "-q", "--boot", "--register=no", "--keep-unit", "--resolv-conf=off"]
            command += ["--timezone=off", "--link-journal=no", "--console=pipe", f"--machine={space}"]
            command += [f"--network-namespace-path=/run/netns/{space}", f"--directory={merged}"]
            self.processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            )
        self.addresses.append(address)

    def ssh(self, index: int, command: str, check: bool = True) -> str:
        options = ["-o", "StrictHostKeyChecking=accept-new", "-o", f"UserKnownHostsFile={self.folder}/known"]
        options += [
            "-o",
            "BatchMode=yes",
            "-o",
            "ConnectTimeout=2",
            "-o",
            "LogLevel=ERROR",
            "-i",
            str(self.key),
        ]
        return call("ssh", *options, f"root@{self.addresses[index]}", command, check=check)

    def route(self, index: int, *words: str) -> None:
        """Changes the routes of one host."""
        call("ip", "-n", f"{self.name}-{index}", "route", *words)

    def _wait(self, address: str) -> None:
        index = self.addresses.index(address)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if self.ssh(index, "echo up", check=False).strip() == "up":
                return
            time.sleep(0.3)
        log = (self.folder / f"console{index}.log").read_text("utf-8", "replace")[-600:]
        raise RuntimeError(f"no SSH at {address}: {log}")

    def down(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for mount in self.mounts:
            call("umount", "-l", mount, check=False)
        for index in range(len(self.addresses)):
            call("ip", "netns", "del", f"{self.name}-{index}", check=False)
        call("ip", "netns", "del", f"{self.name}-fabric", check=False)
        call("ip", "link", "del", f"{self.name}h", check=False)

    def inventory(self, **fields: str) -> str:
        """The YAML of an inventory of these hosts."""
        lines = [f"{name}: {value}" for name, value in {"cluster": "tests", **fields}.items()]
        lines += [f"ssh: {{user: root, key: {self.key}}}", "hosts:"]
        for index, address in enumerate(self.addresses):
            leaf = f"leaf{index % 2 + 1}"
            lines.append(
                f"  - {{id: n{index + 1}, hostname: n{index + 1}, address: {address}, "
                f"location: {{site: lab, spine: spine1, leaf: {leaf}, rack: r1}}}}"
            )
        return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three machines for the whole session."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if os.geteuid() != 0:
        pytest.skip("needs root (network namespaces, overlay mounts, systemd-nspawn)")
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    instances = Path("/proc/sys/fs/inotify/max_user_instances")
    if int(instances.read_text()) < 1024:
        with contextlib.suppress(OSError):
            instances.write_text("1024")
    number = 100 + os.getpid() % 100
    machines = Hosts(tmp_path_factory.mktemp("hosts"), number)
    try:
        machines.up(COUNT)
        yield machines
    finally:
        machines.down()
