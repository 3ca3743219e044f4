"""A small initramfs from parts of a root file system: busybox, chosen programs with their libraries,
chosen kernel modules and one `init` script."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from l0_infra_os._kit.problems import Failed
from l0_infra_os.backends.programs import run

MODULES = ("virtio_pci", "virtio_net", "virtio_rng", "qemu_fw_cfg")
"""What the agent needs of the kernel beyond what Debian's cloud kernel has built in (NVMe, ext4)."""

#: Programs lie in one folder with their libraries and loader, away from what busybox links into /bin.
LAUNCHER = '#!/bin/sh\nexec /programs/ld-linux-x86-64.so.2 --library-path /programs /programs/{name} "$@"\n'


def make_initramfs(root: Path, init: Path, *, busybox: Path, programs: Sequence[str] = ()) -> bytes:
    """The gzip-compressed cpio archive (newc), with modules in the order in which they must load."""
    entries: dict[str, tuple[int, bytes]] = {}
    for folder in ("bin", "dev", "etc", "modules", "proc", "programs", "sys", "tmp", "usr", "usr/bin"):
        entries[folder] = (stat.S_IFDIR | 0o755, b"")
    entries["bin/busybox"] = (stat.S_IFREG | 0o755, busybox.read_bytes())
    entries["bin/sh"] = (stat.S_IFLNK | 0o777, b"busybox")
    entries["init"] = (stat.S_IFREG | 0o755, init.read_bytes())
    for program in programs:
        for path in _with_libraries(root, program):
            entries[f"programs/{path.name}"] = (
                stat.S_IFREG | 0o755,
                (root / path.relative_to("/")).read_bytes(),
            )
        name = Path(program).name
        entries[f"usr/bin/{name}"] = (stat.S_IFREG | 0o755, LAUNCHER.format(name=name).encode())
    order = []
    for path in _modules(root):
        entries[f"modules/{path.name}"] = (stat.S_IFREG | 0o644, path.read_bytes())
        order.append(path.name)
    entries["modules/order"] = (stat.S_IFREG | 0o644, "".join(f"{name}\n" for name in order).encode())
    return gzip.compress(_cpio(entries), 6, mtime=0)


def kernel_version(root: Path) -> str:
    """The version of the one kernel that is installed in a root file system."""
    versions = sorted(path.name for path in (root / "usr/lib/modules").glob("*") if path.is_dir())
    if len(versions) != 1:
        raise Failed(f"one kernel was expected in the image, there are {len(versions)}")
    return versions[0]


def _with_libraries(root: Path, program: str) -> list[Path]:
    """The program's path and its libraries', as its own loader resolves them."""
    listing = run(["chroot", str(root), "ldd", program])
    return [Path(program), *(Path(path) for path in re.findall(r"(/\S+) \(0x", listing))]


def _modules(root: Path) -> list[Path]:
    """Module files, each after the ones that it depends on."""
    version = kernel_version(root)
    listing = run(["chroot", str(root), "modprobe", "-S", version, "-a", "--show-depends", *MODULES])
    found: list[Path] = []
    for line in listing.splitlines():
        words = line.split()
        if words and words[0] == "insmod":
            path = root / words[1].lstrip("/")
            if path not in found:
                found.append(path)
    return found


def _cpio(entries: dict[str, tuple[int, bytes]]) -> bytes:
    """The `newc` format that the kernel unpacks (Documentation/driver-api/early-userspace)."""
    archive = bytearray()
    named: Iterable[tuple[str, tuple[int, bytes]]] = [*entries.items(), ("TRAILER!!!", (0, b""))]
    for number, (name, (mode, data)) in enumerate(named, 1):
        path = name.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0]
        archive += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        archive += b"\0" * (-len(archive) % 4)
        archive += data
        archive += b"\0" * (-len(archive) % 4)
    return bytes(archive)


def busybox_path() -> Path:
    """A statically linked busybox of this host."""
    found = shutil.which("busybox", path=f"{os.environ.get('PATH', '')}:/usr/bin:/bin")
    if found is None:
        raise Failed("busybox is not on this machine", do="apt-get install -y busybox-static")
    return Path(found)
