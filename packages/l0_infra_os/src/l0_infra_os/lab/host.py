"""What the lab needs of this host: programs, free ports, kernel limits; and what the host is."""

from __future__ import annotations

import importlib.util
import os
import platform
import socket
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from l0_infra_os._kit.problems import Unavailable
from l0_infra_os.backends.images.debian import require

from .folder import LabFolder
from .plan import Hardware, Kind, Plan

PROGRAMS: dict[Kind, tuple[str, ...]] = {
    "process": ("setpriv",),
    "nspawn": ("setpriv", "systemd-nspawn", "ip", "tc", "nft", "nsenter", "unshare", "zstd", "tar"),
    "qemu": ("setpriv", "ip", "tc", "nft", "nsenter", "dnsmasq", "qemu-system-x86_64", "qemu-img", "busybox"),
}
FIRMWARE_FILES = {
    "/usr/share/OVMF/OVMF_CODE.fd": "ovmf",
    "/usr/lib/ipxe/snponly.efi": "ipxe",
}
FIRST_BMC_PORT, LAST_BMC_PORT, STEP = 8101, 9900, 20
INOTIFY_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
ENOUGH_INSTANCES = 4096
QEMU_MEMORY_BYTES = 1 << 30
DISK_BYTES = 4 << 30
QEMU_DISK_BYTES = 1 << 30


def require_programs(kind: Kind) -> None:
    """`Unavailable` with one line to copy when this host lacks something for labs of that kind."""
    if kind != "process" and os.geteuid() != 0:
        raise Unavailable(
            f"a lab of kind {kind} needs root",
            why="it makes network namespaces and containers",
            do="run as root, or use --kind process (machines that end at their plan)",
        )
    if importlib.util.find_spec("sushy_tools") is None:
        raise Unavailable("the lab's BMCs need the sushy-tools emulator", do="pip install 'l0-infra-os[lab]'")
    require(*PROGRAMS[kind])
    missing = [package for path, package in FIRMWARE_FILES.items() if not Path(path).exists()]
    if kind == "qemu" and missing:
        line = f"apt-get install -y --no-install-recommends {' '.join(missing)}"
        raise Unavailable(f"not on this machine: {', '.join(missing)}", do=line)


def hardware(kind: Kind) -> Hardware:
    """What a machine has: the host's own processors and memory, or the virtual machine's."""
    model = platform.machine()
    memory = 0
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    for line in Path("/proc/meminfo").read_text("utf-8").splitlines():
        if line.startswith("MemTotal:"):
            memory = int(line.split()[1]) * 1024
    if kind == "qemu":
        return Hardware(
            cpu_cores=2, cpu_model="QEMU TCG CPU", memory_bytes=QEMU_MEMORY_BYTES, disk_bytes=QEMU_DISK_BYTES
        )
    return Hardware(
        cpu_cores=os.cpu_count() or 1, cpu_model=model, memory_bytes=memory, disk_bytes=DISK_BYTES
    )


def bmc_ports(count: int, preferred: int | None) -> range:
    """Free loopback ports in one row, for BMCs that are found by address range."""
    starts = [preferred] if preferred else []
    starts += range(FIRST_BMC_PORT, LAST_BMC_PORT, max(STEP, count))
    for start in starts:
        if all(_is_free(port) for port in range(start, start + count)):
            return range(start, start + count)
    raise Unavailable(f"no {count} free ports in a row between {FIRST_BMC_PORT} and {LAST_BMC_PORT}")


def _is_free(port: int) -> bool:
    with socket.socket() as candidate:
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def prepare(plan: Plan, folder: LabFolder, say: Callable[[str], None]) -> None:
    """Raises the kernel limit that many systemds need; makes what network boot serves."""
    if plan.kind == "nspawn" and int(INOTIFY_INSTANCES.read_text("utf-8")) < ENOUGH_INSTANCES:
        say(f"raising fs.inotify.max_user_instances to {ENOUGH_INSTANCES}")
        INOTIFY_INSTANCES.write_text(str(ENOUGH_INSTANCES), "utf-8")
    if plan.kind == "qemu":
        from .agent import make_agent

        make_agent(folder.path / "agent", say=say)


def python_mounts() -> list[tuple[Path, str, Path]]:
    """Mounts that make the running Python environment work in the machines, at the same paths.

    The environment's folder and the interpreter's own, read-only; what lies in /usr is left out,
    because a machine has that of its own.
    """
    wanted = [Path(sys.prefix), Path(sys.base_prefix), Path(sysconfig.get_path("stdlib")).parents[1]]
    folders = sorted({path.resolve() for path in wanted if path.resolve() not in (Path("/usr"), Path("/"))})
    outer = [path for path in folders if not any(other in path.parents for other in folders)]
    return [(path, "ro", path) for path in outer]
