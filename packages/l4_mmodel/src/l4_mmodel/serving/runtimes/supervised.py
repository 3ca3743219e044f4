"""What a runtime's process does around its model: dies with its parent, listens on a private socket."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent `parent` is gone, however it went."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went before the line above
        os._exit(1)


def serve(app: Any, socket: Path) -> None:
    """Serves an ASGI application on a Unix socket until told to stop."""
    import uvicorn

    socket.unlink(missing_ok=True)
    os.umask(0o077)
    config = uvicorn.Config(
        app, uds=str(socket), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5
    )
    uvicorn.Server(config).run()
