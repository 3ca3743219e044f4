"""Debian packages that sessions need: installed when root, else named in one line to copy."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Protocol


class Session(Protocol):
    def log(self, message: str, *args: object) -> None: ...

    def warn(self, message: str, *args: object) -> None: ...


#: package -> a path or program that shows that it is there.
LAB = {
    "systemd-container": "systemd-nspawn",
    "mmdebstrap": "mmdebstrap",
    "iproute2": "ip",
    "nftables": "nft",
    "iputils-ping": "ping",
    "openssh-client": "ssh",
    "dnsmasq-base": "dnsmasq",
    "zstd": "zstd",
}
FIRMWARE = {
    "qemu-system-x86": "qemu-system-x86_64",
    "qemu-utils": "qemu-img",
    "ovmf": "/usr/share/OVMF/OVMF_CODE.fd",
    "ipxe": "/usr/lib/ipxe/snponly.efi",
    "busybox-static": "/usr/share/doc/busybox-static",
    "mtools": "mcopy",
    "dosfstools": "mkfs.vfat",
    "fdisk": "sfdisk",
    "binutils": "objcopy",
    "e2fsprogs": "mke2fs",
}
SERVICES = {"redis-server": "redis-server"}
DATABASE = {"postgresql": "/usr/share/postgresql-common", "bubblewrap": "bwrap"}
SESSIONS = {"openssh-server": "sshd"}
SLURM = {"munge": "munged", "slurm-client": "sbatch", "slurmctld": "slurmctld", "slurmd": "slurmd"}
BROWSER = {"chromium": "chromium", "fonts-noto-cjk": "/usr/share/fonts/opentype/noto"}

NEEDS = {
    "demo": {**LAB, **SERVICES},
    "demo-qemu": {**LAB, **SERVICES, **FIRMWARE},
    "tests": {**LAB, **FIRMWARE, **SERVICES, **DATABASE, **SLURM, **SESSIONS, **BROWSER},
}


def missing(session_name: str) -> list[str]:
    """The packages of a session that this machine lacks."""

    def present(sign: str) -> bool:
        return Path(sign).exists() if sign.startswith("/") else shutil.which(sign) is not None

    path = os.environ.get("PATH", "")
    os.environ["PATH"] = f"{path}{os.pathsep}/usr/sbin{os.pathsep}/sbin"  # where ip and nft live
    return [package for package, sign in NEEDS[session_name].items() if not present(sign)]


def ensure(session: Session, session_name: str) -> None:
    """Installs what is missing, by name; without root or with OGAI_NO_APT=1 only says so."""
    packages = missing(session_name)
    if not packages:
        return
    line = "apt-get install -y --no-install-recommends " + " ".join(packages)
    if os.environ.get("OGAI_NO_APT") == "1" or os.geteuid() != 0 or not shutil.which("apt-get"):
        session.warn("not on this machine; install with: %s", line)
        return
    session.log("installing Debian packages: %s", " ".join(packages))
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ("apt-get update -q", line):
        done = subprocess.run(command.split(), env=environment, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        session.warn("apt-get failed; run it by hand: %s", line)
