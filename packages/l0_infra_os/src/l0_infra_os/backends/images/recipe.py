"""What a Debian image consists of, as data: packages, units that are off, and our few files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field

SUITE = "bookworm"

BASE_PACKAGES = (
    "ca-certificates",
    "chrony",
    "dbus",
    "iproute2",
    "iputils-ping",
    "libgomp1",
    "openssh-server",
    "procps",
    "python3",
    "sudo",
    "systemd",
    "systemd-sysv",
    "usr-is-merged",
    "zstd",
)
"""What every node has; Python because agents and Ansible need one that is always there."""

DISK_PACKAGES = (*BASE_PACKAGES, "linux-image-cloud-amd64", "systemd-boot-efi", "udev")
"""What a machine with firmware and disk needs on top: a kernel, its EFI stub, device events."""

MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "fstrim.timer",
    "getty@tty1.service",
    "systemd-logind.service",
    "systemd-networkd-wait-online.service",
)
"""Off in every image: they cost start-up time or fetch from the internet behind a node's back."""

UNWANTED_PACKAGES = ("usrmerge",)
"""Never installed; usrmerge would bring all of Perl where `usr-is-merged` does."""

LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*")
KEPT = ("/usr/share/doc/*/copyright",)

FILES = {
    "etc/ssh/sshd_config.d/50-ogai.conf": (
        "HostKey /etc/ssh/ssh_host_ed25519_key\n"
        "PasswordAuthentication no\n"
        "PermitRootLogin prohibit-password\n"
        "UseDNS no\n"
    ),
    # The image carries no host key: every node makes its own before sshd starts for the first time.
    "etc/systemd/system/ssh.service.d/50-ogai-host-key.conf": (
        "[Service]\n"
        "ExecStartPre=\n"
        "ExecStartPre=/bin/sh -c 'test -s /etc/ssh/ssh_host_ed25519_key"
        ' || ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key\'\n'
        "ExecStartPre=/usr/sbin/sshd -t\n"
    ),
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/machine-id": "",
}

CONFIG_DRIVE = "usr/local/lib/ogai/config-drive"
#: Whole-disk images find what makes them this node on a partition of its own, as a tar archive, and
#: take it over before systemd starts: names of NICs, units and keys are then simply there.
CONFIG_DRIVE_PROGRAM = """\
#!/bin/sh
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for device in /sys/class/block/*; do
	if grep -q '^PARTNAME=ogai-config$' "$device/uevent"; then
		tar -x -p --numeric-owner --no-overwrite-dir -f "/dev/${device##*/}" -C /
	fi
done
exec /sbin/init "$@"
"""


@dataclass(frozen=True)
class Recipe:
    """One image, completely: the same recipe gives the same kind of root file system."""

    name: str
    packages: tuple[str, ...]
    enabled: tuple[str, ...] = ("systemd-networkd.service",)
    masked: tuple[str, ...] = MASKED_UNITS
    files: dict[str, str] = field(default_factory=lambda: dict(FILES))
    suite: str = SUITE
    unwanted: tuple[str, ...] = UNWANTED_PACKAGES
    left_out: tuple[str, ...] = LEFT_OUT
    kept: tuple[str, ...] = KEPT
    version: int = 3

    @property
    def key(self) -> str:
        """Names the recipe's contents: a changed recipe is another image."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


ROOT = Recipe("debian", BASE_PACKAGES)
"""A root file system without a kernel, for machines that share the host's: `tar.zst`."""

DISK = Recipe(
    "debian-disk",
    DISK_PACKAGES,
    files={**FILES, CONFIG_DRIVE: CONFIG_DRIVE_PROGRAM},
    # A machine with a console has a login there, and logind answers its power button.
    masked=tuple(unit for unit in MASKED_UNITS if "getty" not in unit and "logind" not in unit),
)
"""A root file system with a kernel and device events, the start of a whole-disk image."""

DISK_LAYOUT_VERSION = 2
"""Counts changes of how `disk.py` turns the disk recipe into an image."""
