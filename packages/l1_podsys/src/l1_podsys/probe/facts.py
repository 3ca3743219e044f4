"""Answers every question about one host in one run: sent over SSH, standard library only, read-only.

`main(request)` prints one JSON line.  The request names what the plan needs to know (files, units,
packages, users, kernel settings); the general facts are always given.  It is sent as one program
with `hardware` before it, must run on any Python from 3.7 on, and limits its own CPU time.
"""

# ruff: noqa: PTH113, PTH114, PTH115, PTH116

from __future__ import annotations

import grp
import hashlib
import hmac
import json
import os
import platform
import pwd
import resource
import socket
import sys
import time

from l1_podsys.probe.hardware import (
    Row,
    boot_options,
    count,
    disks,
    infiniband,
    interfaces,
    memory,
    nvidia,
    operating_system,
    output,
    pci_devices,
    processor,
    read,
)

SCHEMA = "podsys.facts/v1"
MOST_TEXT = 16384


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
