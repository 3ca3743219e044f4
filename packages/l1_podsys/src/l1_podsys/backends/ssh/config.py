"""The OpenSSH client configuration of one cluster.

Host keys are kept in a file of the cluster: the first key of a host is accepted and remembered, a
changed one is refused.  Checking is never off.  Control sockets live in a short private folder,
because a socket's path may have 107 bytes.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from l1_podsys._kit.files import atomic_write
from l1_podsys._kit.problems import BadInput, Unavailable
from l1_podsys.core.inventory import Inventory


@dataclass(frozen=True)
class SshFiles:
    """Where a cluster's SSH configuration, host keys and control sockets are."""

    config: Path
    known_hosts: Path
    sockets: Path


def socket_folder(cluster_folder: Path) -> Path:
    """A private folder with a short name, the same for every process that works on this cluster."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    mark = hashlib.sha256(str(cluster_folder.resolve()).encode()).hexdigest()[:12]
    folder = base / f"podsys-{os.geteuid()}-{mark}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise Unavailable(f"{folder} is not a private folder of this user", do="remove it")
    return folder


def write_config(inventory: Inventory, folder: Path, *, connect_timeout_s: int, persist_s: int) -> SshFiles:
    """Writes the cluster's client configuration; every host is an alias by its id."""
    files = SshFiles(folder / "ssh_config", folder / "known_hosts", socket_folder(folder))
    general = f"""# Written by podsys.
Host *
  BatchMode yes
  StrictHostKeyChecking accept-new
  UserKnownHostsFile {_quoted(files.known_hosts)}
  GlobalKnownHostsFile /dev/null
  HashKnownHosts no
  UpdateHostKeys no
  CheckHostIP no
  PasswordAuthentication no
  ConnectTimeout {connect_timeout_s}
  ServerAliveInterval 5
  ServerAliveCountMax 3
  ControlMaster auto
  ControlPersist {persist_s}
  ControlPath {_quoted(files.sockets)}/%C
  LogLevel ERROR
"""
    blocks = []
    for host in inventory.hosts:
        login = inventory.login(host)
        lines = [f"Host {host.id}", f"  HostName {host.address}", f"  User {login.user}"]
        lines += [f"  Port {login.port}", f"  HostKeyAlias {host.id}"]
        if login.key is not None:
            key = Path(login.key).expanduser()
            if not key.is_file():
                raise BadInput("no such key file", field="ssh.key", do=f"check the path {key}")
            lines += [f"  IdentityFile {_quoted(key)}", "  IdentitiesOnly yes"]
        blocks.append("\n".join(lines))
    # The block of a host stands first: in OpenSSH the first value given wins.
    atomic_write(files.config, "\n".join(blocks) + "\n" + general, mode=0o600)
    return files


def _quoted(path: Path) -> str:
    text = str(path)
    if '"' in text or "\n" in text:
        raise BadInput(f"the path {text!r} cannot stand in an SSH configuration", field="home")
    return f'"{text}"' if " " in text else text.replace("%", "%%")
