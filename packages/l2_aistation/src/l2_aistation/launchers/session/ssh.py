"""SSH as a session (a shell, VS Code): an sshd of this job alone that lets one key in."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from l2_aistation._kit.files import atomic_write
from l2_aistation._kit.problems import Unavailable
from l2_aistation.supervisor import processes

from .activity import BUSY_CORES, Programs, typed_at


class Ssh:
    """Runs as the job's user, who alone can log in."""

    def __init__(self, host: str, port: int, folder: Path, public_key: str) -> None:
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        sshd, keygen = (shutil.which(name, path=path) for name in ("sshd", "ssh-keygen"))
        if sshd is None or keygen is None:
            raise Unavailable(
                "sshd is not on this node", why="sshd or ssh-keygen is missing", do="install openssh-server"
            )
        self._host, self._port = host, port
        self._programs = Programs()
        key, keys, config = folder / "host_key", folder / "authorized_keys", folder / "sshd_config"
        make = [keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(make, stdin=subprocess.DEVNULL, check=True)
        self._host_key = key.with_suffix(".pub").read_text("ascii").strip()
        atomic_write(keys, public_key.strip() + "\n", mode=0o600)
        atomic_write(config, _configuration(host, port, key, keys, folder), mode=0o600)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.process = subprocess.Popen([sshd, "-D", "-e", "-f", str(config)])

    def describe(self) -> dict[str, Any]:
        """How the owner comes in, with the host's key to check."""
        return {
            "kind": "ssh",
            "host": self._host,
            "port": self._port,
            "user": getpass.getuser(),
            "host_key": self._host_key,
        }

    def up(self) -> bool:
        """Whether it listens: sshd ends at once where it cannot."""
        return self.process.poll() is None

    def activity(self) -> tuple[bool, float | None]:
        """Whether programs of the session compute, and when somebody last typed."""
        pids = processes.descendants(self.process.pid)
        return self._programs.cores({self.process.pid}) >= BUSY_CORES, typed_at(pids)

    def end(self) -> None:
        """Ends it; what was started through it ends with the job."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def _configuration(host: str, port: int, key: Path, keys: Path, folder: Path) -> str:
    return f"""ListenAddress {host}
Port {port}
HostKey {key}
AuthorizedKeysFile {keys}
PidFile {folder / "sshd.pid"}
AllowUsers {getpass.getuser()}
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
AllowTcpForwarding local
Subsystem sftp internal-sftp
"""
