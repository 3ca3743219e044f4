"""What a host is made of: system, processor, memory, network, disks, PCI devices.

The first part of the facts program (see `facts`): standard library only, any Python from 3.7 on.
"""

# ruff: noqa: PTH110, PTH119, PTH207, UP035

from __future__ import annotations

import fcntl
import glob
import os
import platform
import socket
import struct
import subprocess
from typing import Any, Dict

Row = Dict[str, Any]  # noqa: UP006 (evaluated at run time, on old Pythons too)

ACS_CONTROL_BITS = 0x7F


def read(path: str, default: str = "") -> str:
    """The text of a small file, or the default where it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(1 << 20).decode("utf-8", "replace").strip()
    except OSError:
        return default


def number(text: str) -> int | None:
    """An integer out of a text such as "16", or None."""
    try:
        return int(text)
    except ValueError:
        return None


def count(text: str) -> int:
    """An integer out of a text, 0 where there is none."""
    return number(text) or 0


def operating_system() -> Row:
    """From os-release."""
    values = {}
    for line in read("/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        values[name] = value.strip("\"'")
    return {
        "id": values.get("ID", "unknown"),
        "version": values.get("VERSION_ID", ""),
        "name": values.get("PRETTY_NAME", "unknown"),
    }


def boot_options() -> list[str]:
    """The boot options that tuning is about; others may hold secrets and stay where they are."""
    known: tuple[str, ...]
    known = ("iommu", "intel_iommu", "amd_iommu", "pci", "hugepages", "hugepagesz", "mitigations")
    known += ("default_hugepagesz", "isolcpus", "nohz_full", "processor.max_cstate", "pcie_aspm")
    known += ("intel_idle.max_cstate", "numa_balancing", "transparent_hugepage")
    return [word for word in read("/proc/cmdline").split() if word.partition("=")[0] in known]


def processor() -> Row:
    """Cores that may be used, and NUMA nodes."""
    models = [line for line in read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "model": models[0].partition(":")[2].strip() if models else platform.processor(),
        "numa_nodes": max(1, len(glob.glob("/sys/devices/system/node/node[0-9]*"))),
    }


def memory() -> Row:
    """Bytes of memory and swap, huge pages."""
    values = {}
    for line in read("/proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        values[name] = count(rest.split()[0]) if rest.split() else 0
    return {
        "total_bytes": values.get("MemTotal", 0) * 1024,
        "huge_pages": values.get("HugePages_Total", 0),
        "swap_bytes": values.get("SwapTotal", 0) * 1024,
    }


def address_of(name: str) -> str | None:
    """The IPv4 address of an interface, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def interfaces() -> list[Row]:
    """Network interfaces but the loopback."""
    rows = []
    for folder in sorted(glob.glob("/sys/class/net/*")):
        name = os.path.basename(folder)
        if name == "lo":
            continue
        rows.append(
            {
                "name": name,
                "mac": read(folder + "/address"),
                "mtu": number(read(folder + "/mtu")),
                "state": read(folder + "/operstate"),
                "speed_mbps": number(read(folder + "/speed")),
                "address": address_of(name),
            }
        )
    return rows


def disks() -> list[Row]:
    """Block devices that hold data."""
    rows = []
    for folder in sorted(glob.glob("/sys/block/*")):
        name = os.path.basename(folder)
        if name.startswith(("loop", "ram", "dm-", "zram", "sr")):
            continue
        rows.append(
            {
                "name": name,
                "size_bytes": count(read(folder + "/size")) * 512,
                "rotational": read(folder + "/queue/rotational") == "1",
            }
        )
    return rows


# ---- PCI Express, from the configuration space that sysfs shows (PCI Express Base Specification)


def pci_config(data: bytes) -> Row:
    """The bits of one device's configuration space that decide bandwidth; {} where it is too short."""
    found: Row = {}
    if len(data) < 64:
        return found
    place, seen = data[0x34] & 0xFC, 0
    while place and seen < 48 and place + 12 <= len(data):
        if data[place] == 0x10:
            control = struct.unpack_from("<H", data, place + 8)[0]
            capable = struct.unpack_from("<I", data, place + 4)[0]
            found["max_payload"] = 128 << (control >> 5 & 7)
            found["max_payload_supported"] = 128 << (capable & 7)
            found["max_read_request"] = 128 << (control >> 12 & 7)
            found["relaxed_ordering"] = bool(control & 0x10)
        place, seen = data[place + 1] & 0xFC, seen + 1
    place, seen = 0x100, 0
    while place and seen < 64 and place + 8 <= len(data):
        head = struct.unpack_from("<I", data, place)[0]
        if head & 0xFFFF == 0x000D:
            found["acs_control"] = struct.unpack_from("<H", data, place + 6)[0] & ACS_CONTROL_BITS
        place, seen = head >> 20 & 0xFFC, seen + 1
    return found


def pci_devices() -> list[Row]:
    """Accelerators, NVSwitches, network adapters and bridges: what tuning and diagnosis ask about."""
    rows = []
    for folder in sorted(glob.glob("/sys/bus/pci/devices/*")):
        kind = read(folder + "/class")[2:6]
        vendor = read(folder + "/vendor")[2:]
        if kind not in ("0300", "0302", "1200", "0680", "0604", "0200", "0207"):
            continue
        if kind == "0680" and vendor != "10de":
            continue
        row = {
            "address": os.path.basename(folder),
            "class": kind,
            "vendor": vendor,
            "device": read(folder + "/device")[2:],
            "numa": number(read(folder + "/numa_node")),
            "driver": os.path.basename(os.path.realpath(folder + "/driver"))
            if os.path.exists(folder + "/driver")
            else None,
        }
        for name in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"):
            row[name] = read(folder + "/" + name) or None
        try:
            with open(folder + "/config", "rb") as stream:
                row.update(pci_config(stream.read(4096)))
        except OSError:
            pass
        rows.append(row)
    return rows


def nvidia() -> Row:
    """Driver, its flavour and the GPUs, from /proc; {} where no NVIDIA driver is loaded."""
    text = read("/proc/driver/nvidia/version")
    if not text:
        return {}
    words = text.splitlines()[0].split()
    version = next((word for word in words if word[0].isdigit() and "." in word), "")
    gpus: list[Row] = []
    for folder in sorted(glob.glob("/proc/driver/nvidia/gpus/*")):
        values = {}
        for line in read(folder + "/information").splitlines():
            name, _, value = line.partition(":")
            values[name.strip()] = value.strip()
        gpus.append({"pci": os.path.basename(folder), "model": values.get("Model", "NVIDIA GPU")})
    memory_rows = {}
    listing = output(
        ["nvidia-smi", "--query-gpu=pci.bus_id,memory.total", "--format=csv,noheader,nounits"], 10
    )
    for line in listing.splitlines():
        bus, _, mebibytes = line.partition(",")
        memory_rows[bus.strip().lower()[-12:]] = count(mebibytes.strip()) * 1048576
    for gpu in gpus:
        gpu["memory_bytes"] = memory_rows.get(gpu["pci"].lower()[-12:], 0)
    flavour = "open" if "Open Kernel Module" in text else "proprietary"
    return {"driver": version, "flavour": flavour, "gpus": gpus}


def infiniband() -> list[Row]:
    """Ports of RDMA devices."""
    return [
        {
            "device": port.split("/")[4],
            "port": number(os.path.basename(port)),
            "state": read(port + "/state"),
            "rate": read(port + "/rate"),
            "link_layer": read(port + "/link_layer"),
        }
        for port in sorted(glob.glob("/sys/class/infiniband/*/ports/*"))
    ]


def output(command: list[str], seconds: float) -> str:
    """What a command prints, or nothing where it is absent, fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
