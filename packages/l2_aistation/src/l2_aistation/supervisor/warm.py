"""The supervisor's side of a fork server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PREIMPORT = "OGAI_PREIMPORT"
"""Names modules, separated by commas, that a fork server imports before ranks start."""

PER_RANK = frozenset({
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR",
    "MASTER_PORT", "OGAI_JOB", "OGAI_ATTEMPT", "OGAI_PROGRESS", "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "OGAI_PEERS", "OGAI_HOSTFILE", "GROUP_WORLD_SIZE",
    "ROLE_RANK", "ROLE_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT",
})  # fmt: skip
"""What may differ between ranks and attempts that one fork server serves."""

_PYTHON = re.compile(r"^python(3(\.\d+)?)?$")
_LONGEST_IMPORT_S = 180.0
_LONGEST_FORK_S = 20.0


def interpreter(name: str) -> str:
    """A bare `python` is the interpreter that runs this platform; a path is taken as it is."""
    return sys.executable if _PYTHON.match(name) else name


def forkable(command: Sequence[str], environment: Mapping[str, str]) -> list[str] | None:
    """The arguments after the interpreter where a fork server can start the command, else None."""
    if PREIMPORT not in environment or not command or not _PYTHON.match(Path(command[0]).name):
        return None
    arguments = [word for word in command[1:2] if word != "-u"] + list(command[2:])
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "-m"):
        return None
    return arguments if arguments[0] != "-m" or len(arguments) > 1 else None


class ForkServer:
    """One warm interpreter.  It begins to import at once; ranks wait while it is `importing`."""

    def __init__(self, python: str, environment: Mapping[str, str], folder: Path, log: Path) -> None:
        self.key = self.key_of(python, environment)
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.settimeout(_LONGEST_FORK_S)
        self.ready: dict[str, object] | None = None
        self.alive = True
        self._begun = time.monotonic()
        with open(log, "ab") as output, theirs:
            self._process = subprocess.Popen(
                [interpreter(python), str(Path(__file__).with_name("forkserver.py")), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environment),
                cwd=folder,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        modules = [name.strip() for name in environment[PREIMPORT].split(",") if name.strip()]
        self._ours.send(json.dumps({"modules": modules}).encode())

    @staticmethod
    def key_of(python: str, environment: Mapping[str, str]) -> tuple[object, ...]:
        """Equal keys may share a server: same interpreter, same environment at import."""
        shared = {name: value for name, value in environment.items() if name not in PER_RANK}
        return interpreter(python), tuple(sorted(shared.items()))

    def serves(self, python: str, environment: Mapping[str, str]) -> bool:
        """Whether a rank with this interpreter and environment may be forked here, now."""
        return self.alive and not self.importing and self.key == self.key_of(python, environment)

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    @property
    def importing(self) -> bool:
        """Whether ranks should wait: it lives, is not ready, and has not taken for ever."""
        return self.alive and self.ready is None and time.monotonic() - self._begun < _LONGEST_IMPORT_S

    def fileno(self) -> int:
        """The socket, for a selector: readable when the imports are done or the server has ended."""
        return self._ours.fileno()

    def take_ready(self) -> None:
        """Reads the news that the imports are done, where it has come."""
        if self.alive and self.ready is None and select.select([self._ours], [], [], 0)[0]:
            try:
                self.ready = self._answer()
            except OSError:
                self.alive = False

    def fork(self, arguments: list[str], environment: Mapping[str, str], folder: Path, log: int) -> int:
        """Starts a rank and returns its pid; `OSError` when the server is gone."""
        request = {"argv": arguments, "environment": dict(environment), "folder": str(folder)}
        message = json.dumps({**request, "parent": os.getpid()}).encode()
        socket.send_fds(self._ours, [message], [log])
        pid = self._answer()["pid"]
        assert isinstance(pid, int)
        return pid

    def _answer(self) -> dict[str, object]:
        message = self._ours.recv(1 << 16)
        if not message:
            raise ConnectionResetError("the fork server ended")
        answer: dict[str, object] = json.loads(message)
        return answer

    def died(self) -> None:
        """The supervisor has waited for the server's process."""
        self.alive = False
        self._process.returncode = 0

    def close(self) -> None:
        """Ends the server; ranks that it forked go on."""
        self.alive = False
        self._ours.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
