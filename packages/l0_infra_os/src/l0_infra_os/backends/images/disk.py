"""Makes the whole-disk Debian image: GPT with an EFI partition, the root and the configuration drive.

The EFI partition holds one file: kernel, command line and EFI stub joined (a unified kernel image),
under the name that firmware looks for on a disk that it does not know.  No loop devices are needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from l0_infra_os._kit.files import atomic_write, locked
from l0_infra_os.backends.programs import run

from .cache import cache_folder
from .debian import build_debian_root, require, say_on_stderr
from .initramfs import busybox_path, kernel_version, make_initramfs
from .recipe import CONFIG_DRIVE, DISK, DISK_LAYOUT_VERSION

MIB = 1 << 20
ESP_MIB = 34
CONFIG_MIB = 1
COMMAND_LINE = f"root=PARTLABEL=ogai-root rootwait rw console=ttyS0 quiet init=/{CONFIG_DRIVE}"
AGENT = Path(__file__).parents[1] / "boot" / "agent.sh"
STUB = "usr/lib/systemd/boot/efi/linuxx64.efi.stub"
#: Modules that a machine of the lab may load; the rest of the kernel's drivers is for other hardware.
KEPT_MODULES = tuple(
    f"kernel/{path}"
    for path in (
        *("arch/x86/crypto", "block", "crypto", "fs", "lib", "net"),
        *("drivers/acpi/button.ko", "drivers/input/evdev.ko"),  # the power button, and who hears it
        *("drivers/block", "drivers/char", "drivers/firmware", "drivers/virtio", "drivers/net/bonding"),
        *("drivers/net/net_failover.ko", "drivers/net/tun.ko", "drivers/net/veth.ko"),
        *("drivers/net/virtio_net.ko", "drivers/net/vxlan"),
    )
)

Say = Callable[[str], None]


def disk_files(*, say: Say = say_on_stderr) -> dict[str, Path]:
    """`disk.raw.zst`, `vmlinuz` and `agent.img` of the disk recipe, from the cache or made now."""
    agent_key = _digest(AGENT)[:8]
    folder = cache_folder() / f"{DISK.name}-{DISK.key}-{DISK_LAYOUT_VERSION}"
    names = {"disk": "disk.raw.zst", "vmlinuz": "vmlinuz", "agent": f"agent-{agent_key}.img"}
    files = {kind: folder / name for kind, name in names.items()}
    if all(path.exists() for path in files.values()):
        return files
    require("sfdisk", "mke2fs", "mkfs.vfat", "mcopy", "objcopy", "zstd", "busybox")
    archive = build_debian_root(DISK, say=say)
    with locked(folder.with_suffix(".lock")):
        if not all(path.exists() for path in files.values()):
            say("making the disk image (once), half a minute")
            _make(archive, files)
            say(f"disk image made: {files['disk'].stat().st_size / 1e6:.0f} MB")
    return files


def build_disk(*, say: Say = say_on_stderr) -> Path:
    """The `raw.zst` whole-disk image."""
    return disk_files(say=say)["disk"]


def _digest(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def _make(archive: Path, files: dict[str, Path]) -> None:
    """Makes the files that are missing, from one unpacked root."""
    with tempfile.TemporaryDirectory(prefix="ogai-disk-") as temporary:
        work = Path(temporary)
        root = work / "root"
        root.mkdir()
        run(["tar", "--zstd", "-x", "-p", "--numeric-owner", "-C", str(root), "-f", str(archive)])
        version = kernel_version(root)
        kernel = (root / "boot" / f"vmlinuz-{version}").read_bytes()
        if not files["agent"].exists():
            programs = ("/usr/bin/zstd", "/usr/bin/sha256sum")
            initramfs = make_initramfs(root, AGENT, busybox=busybox_path(), programs=programs)
            atomic_write(files["agent"], initramfs)
        if not files["vmlinuz"].exists():
            atomic_write(files["vmlinuz"], kernel)
        if not files["disk"].exists():
            _unified_kernel(root, work, kernel, version)
            _slim(root, version)
            compressed = files["disk"].with_name(".disk.partial")
            run(["zstd", "-q", "-f", "-T0", "-9", str(_assemble(root, work)), "-o", str(compressed)])
            os.replace(compressed, files["disk"])


def _unified_kernel(root: Path, work: Path, kernel: bytes, version: str) -> None:
    """Joins the parts at the addresses that the EFI stub expects (systemd-stub(7))."""
    (work / "cmdline").write_text(COMMAND_LINE, "ascii")
    (work / "linux").write_bytes(kernel)
    (work / "uname").write_text(version, "ascii")
    command = ["objcopy"]
    sections = {
        ".osrel": (root / "usr/lib/os-release", 0x20000),
        ".cmdline": (work / "cmdline", 0x30000),
        ".uname": (work / "uname", 0x40000),
        ".linux": (work / "linux", 0x2000000),
    }
    for name, (path, address) in sections.items():
        command += ["--add-section", f"{name}={path}", "--change-section-vma", f"{name}={address:#x}"]
    run([*command, str(root / STUB), str(work / "BOOTX64.EFI")])


def _slim(root: Path, version: str) -> None:
    """Leaves out what the joined kernel made superfluous, and drivers of hardware that is not there."""
    for path in (root / "boot").iterdir():
        path.unlink()
    shutil.rmtree(root / "usr/lib/systemd/boot", ignore_errors=True)
    modules = root / "usr/lib/modules" / version
    for path in (modules / "kernel").rglob("*.ko"):
        relative = path.relative_to(modules)
        if not any(relative.is_relative_to(kept) for kept in KEPT_MODULES):
            path.unlink()
    run(["chroot", str(root), "depmod", version])


def _assemble(root: Path, work: Path) -> Path:
    used = int(run(["du", "-s", "--apparent-size", "-B", str(MIB), str(root)]).split()[0])
    root_mib = used * 11 // 10 + 80
    parts = {"ogai-efi": ESP_MIB, "ogai-config": CONFIG_MIB, "ogai-root": root_mib}
    image = work / "disk.raw"
    with open(image, "wb") as stream:
        stream.truncate((sum(parts.values()) + 2) * MIB)
    types = {"ogai-efi": "uefi", "ogai-config": "linux", "ogai-root": "linux"}
    table = "label: gpt\n" + "".join(
        f"size={size}MiB, type={types[name]}, name={name}\n" for name, size in parts.items()
    )
    run(["sfdisk", "--quiet", str(image)], stdin=table)
    starts, start = {}, 1
    for name, size in parts.items():
        starts[name] = start
        start += size
    _put(_efi(work), image, starts["ogai-efi"])
    _put(_file_system(root, work, root_mib), image, starts["ogai-root"])
    return image


def _efi(work: Path) -> Path:
    path = work / "efi.img"
    with open(path, "wb") as stream:
        stream.truncate(ESP_MIB * MIB)
    run(["mkfs.vfat", "-F", "32", "-n", "OGAIEFI", str(path)])
    run(["mmd", "-i", str(path), "::EFI", "::EFI/BOOT"])
    run(["mcopy", "-i", str(path), str(work / "BOOTX64.EFI"), "::EFI/BOOT/BOOTX64.EFI"])
    return path


def _file_system(root: Path, work: Path, size_mib: int) -> Path:
    path = work / "root.img"
    options = ["-q", "-t", "ext4", "-L", "ogai-root", "-m", "0", "-J", "size=8", "-d", str(root)]
    run(["mke2fs", *options, str(path), f"{size_mib}M"])
    return path


def _put(part: Path, image: Path, start_mib: int) -> None:
    """Copies a partition to its place, holes left as holes."""
    options = ["bs=1M", f"seek={start_mib}", "conv=notrunc,sparse", "status=none"]
    subprocess.run(["dd", f"if={part}", f"of={image}", *options], check=True, capture_output=True)
