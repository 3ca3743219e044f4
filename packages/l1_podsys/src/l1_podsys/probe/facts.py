"""Answers every question about one host in one run: sent over SSH, standard library only, read-only.

`main(request)` prints one JSON line.  The request names what the plan needs to know (files, units,
packages, users, kernel settings); the general facts are always given.  The file must run on any
Python from 3.7 on, so it uses no newer syntax, and it limits its own CPU time.
"""

# ruff: noqa: PTH110, PTH113, PTH114, PTH115, PTH116, PTH119, PTH207, UP035

from __future__ import annotations

import fcntl
import glob
import grp
import hashlib
import hmac
import json
import os
import platform
import pwd
import resource
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Dict

Row = Dict[str, Any]  # noqa: UP006 (evaluated at run time, on old Pythons too)

SCHEMA = "podsys.facts/v1"
MOST_TEXT = 16384
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


# ---- what the host is


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


# ---- what the plan asks about


def owner_of(status: os.stat_result) -> tuple[str, str]:
    """Names of user and group, numbers where they have none."""
    try:
        user = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        user = str(status.st_uid)
    try:
        group = grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        group = str(status.st_gid)
    return user, group


def file_state(path: str, wanted: Row, key: bytes) -> Row:
    """Digest, mode and owner of a file; its text too where it differs and is no secret."""
    try:
        status = os.lstat(path)
        if os.path.islink(path):
            return {"kind": "link", "target": os.readlink(path)}
        if not os.path.isfile(path):
            return {"kind": "other"}
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        return {"kind": "absent"} if missing else {"kind": "unreadable", "why": str(error)}
    user, group = owner_of(status)
    state = {
        "kind": "file",
        "mode": f"{status.st_mode & 0o7777:04o}",
        "owner": user,
        "group": group,
    }
    if wanted.get("secret"):
        state["digest"] = "hmac:" + hmac.new(key, data, hashlib.sha256).hexdigest()
        return state
    block = wanted.get("block")
    text = data.decode("utf-8", "replace")
    if block:
        begin, end = block
        inside = text.partition(begin + "\n")[2].partition(end)[0] if begin + "\n" in text else ""
        data, text = inside.encode(), inside
    state["digest"] = "sha256:" + hashlib.sha256(data).hexdigest()
    if state["digest"] != wanted.get("digest") and len(data) <= MOST_TEXT:
        state["text"] = text
    return state


def kernel_setting(name: str) -> Row:
    """Value of a sysctl, and whether it can be set here."""
    path = "/proc/sys/" + name.replace(".", "/")
    value = read(path, "\0")
    if value == "\0":
        return {"value": None, "settable": False}
    try:
        read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        read_only = True
    settable = not read_only and bool(os.stat(path).st_mode & 0o200)
    return {"value": " ".join(value.split()), "settable": settable}


def user_state(name: str) -> Row | None:
    """An account with its groups."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    groups = sorted(group.gr_name for group in grp.getgrall() if name in group.gr_mem)
    return {
        "uid": entry.pw_uid,
        "home": entry.pw_dir,
        "shell": entry.pw_shell,
        "groups": groups,
        "gid": entry.pw_gid,
    }


def packages(names: list[str]) -> dict[str, str]:
    """Installed versions of the named Debian packages; absent ones are left out."""
    wanted, found = set(names), {}
    for stanza in read_status().split("\n\n"):
        head = stanza.partition("\n")[0]
        name = head[9:].strip()
        if not head.startswith("Package: ") or name not in wanted:
            continue
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line[:40])
        if fields.get("Status", "").endswith(" installed"):
            found[name] = fields.get("Version", "")
    return found


def read_status() -> str:
    """dpkg's own list of packages."""
    try:
        with open("/var/lib/dpkg/status", "rb") as stream:
            return stream.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def units(names: list[str]) -> dict[str, Row]:
    """State of systemd units; of those that are not active also the newest lines of their log."""
    if not names:
        return {}
    asked = ["Id", "LoadState", "ActiveState", "SubState", "UnitFileState", "Result", "NRestarts"]
    text = output(["systemctl", "show", "-p", ",".join(asked), *sorted(names)], 10)
    found = {}
    for stanza in text.strip().split("\n\n"):
        fields = dict(line.split("=", 1) for line in stanza.splitlines() if "=" in line)
        if "Id" not in fields:
            continue
        row: Row = {
            "load": fields.get("LoadState", ""),
            "active": fields.get("ActiveState", ""),
            "sub": fields.get("SubState", ""),
            "enabled": fields.get("UnitFileState", ""),
            "result": fields.get("Result", ""),
            "restarts": count(fields.get("NRestarts", "")),
        }
        if row["load"] == "loaded" and row["active"] != "active":
            command = ["journalctl", "-q", "-u", fields["Id"], "-n", "5", "-o", "cat", "--no-pager"]
            row["log"] = output(command, 5).splitlines()[-5:]
        found[fields["Id"]] = row
    return found


def mount_of(path: str) -> Row | None:
    """File system and free space behind a path; None where the path is absent."""
    try:
        space = os.statvfs(path)
    except OSError:
        return None
    best, kind = "", ""
    for line in read("/proc/self/mounts").splitlines():
        fields = line.split()
        place = fields[1].replace("\\040", " ")
        if (path + "/").startswith(place.rstrip("/") + "/") and len(place) >= len(best):
            best, kind = place, fields[2]
    return {
        "mount": best,
        "type": kind,
        "free_bytes": space.f_bavail * space.f_frsize,
        "writable": os.access(path, os.W_OK),
    }


def answer(request: Row) -> Row:
    """What the request asks."""
    key = bytes.fromhex(request.get("key", ""))
    return {
        "files": {path: file_state(path, wanted, key) for path, wanted in request.get("files", {}).items()},
        "sysctl": {name: kernel_setting(name) for name in request.get("sysctl", [])},
        "users": {name: user_state(name) for name in request.get("users", [])},
        "packages": packages(request.get("packages", [])),
        "units": units(request.get("units", [])),
        "mounts": {path: mount_of(path) for path in request.get("mounts", [])},
        "programs": {path: os.access(path, os.X_OK) for path in request.get("programs", [])},
    }


def kernel_log() -> list[str]:
    """Lines of the kernel's log that name a device fault; bounded."""
    words = ("NVRM", "Xid", "AER", "nvidia-peermem", "Surprise Down", "SXid")
    lines = [line for line in output(["dmesg"], 3).splitlines() if any(word in line for word in words)]
    return lines[-200:]


def main(text: str) -> None:
    """Prints the facts as one JSON line."""
    resource.setrlimit(resource.RLIMIT_CPU, (20, 25))
    request = json.loads(text)
    started = time.time()
    facts = {
        "schema": SCHEMA,
        "hostname": socket.gethostname(),
        "os": operating_system(),
        "kernel": platform.release(),
        "arch": platform.machine(),
        "cpu": processor(),
        "memory": memory(),
        "python": platform.python_version(),
        "user_id": os.geteuid(),
        "cmdline": boot_options(),
        "container": read("/run/systemd/container") or None,
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
        "nics": interfaces(),
        "disks": disks(),
        "pci": pci_devices(),
        "nvidia": nvidia(),
        "infiniband": infiniband(),
        "kernel_log": kernel_log() if request.get("kernel_log") else [],
        "answers": answer(request),
    }
    facts["took_s"] = round(time.time() - started, 4)
    facts["cpu_s"] = round(sum(os.times()[:4]), 4)
    sys.stdout.write(json.dumps(facts) + "\n")
