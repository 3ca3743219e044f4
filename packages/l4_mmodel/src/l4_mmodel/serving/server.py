"""`mmodel serve` as a child process, for programs and tests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from l4_mmodel._kit.logs import redact
from l4_mmodel._kit.problems import Failed
from l4_mmodel.documents import Deployment

if TYPE_CHECKING:
    from l4_mmodel.service import Mmodel

POLL_S = 0.1


class Server:
    """A running server; leaving the `with` block drains and ends it."""

    def __init__(self, mmodel: Mmodel, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.mmodel = mmodel
        self.process = process
        self.port = port
        self.log = log
        self.started_at = mmodel.store.clock()

    @property
    def url(self) -> str:
        """The address of the models: what OpenAI's clients call base_url."""
        return f"{self.console_url}/v1"

    @property
    def console_url(self) -> str:
        """The address of pages and REST."""
        return f"http://{self.mmodel.settings.host}:{self.port}"

    @classmethod
    def start(cls, mmodel: Mmodel, *, port: int | None, wait_for: Sequence[str], timeout_s: float) -> Self:
        """Starts the process and waits for it, and for the named deployments."""
        settings = mmodel.settings
        port = settings.port if port is None else port
        port = port or free_port(settings.host)
        log = settings.run_dir / f"serve-{port}.log"
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        values = {name: getattr(settings, name) for name in type(settings).model_fields if name != "home"}
        environment = {
            settings.env_name(name): str(value) for name, value in values.items() if value is not None
        }
        environment |= {"OGAI_HOME": str(settings.home), "OGAI_L4_HOME": str(settings.home)}
        command = [
            sys.executable,
            "-m",
            "l4_mmodel.cli",
            "serve",
            "--port",
            str(port),
            "--parent",
            str(os.getpid()),
        ]
        with open(log, "wb") as stream:
            process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        server = cls(mmodel, process, port, log)
        try:
            server.wait(wait_for, timeout_s)
        except BaseException:
            server.stop(grace_s=0)
            raise
        return server

    def wait(self, names: Sequence[str], timeout_s: float) -> None:
        """Returns when the server listens and the deployments are ready; `Failed` says why not."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Failed("the server ended", why=self.last_lines())
            states = [self.mmodel.deployed.get(self.mmodel.tenant, name) for name in names]
            for row in states:
                if row.state == "failed" and row.changed_at >= self.started_at:
                    raise Failed(f"deployment {row.name} failed", why=row.detail)
            # "ready" from before the start was said by a server that is gone.
            ready = (row.state == "ready" and row.changed_at >= self.started_at for row in states)
            if all(ready) and self._listens():
                return
            time.sleep(POLL_S)
        raise Failed(f"not ready in {timeout_s:g} s", why=self.last_lines())

    def _listens(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.mmodel.settings.host, self.port), 1),
        ):
            return True
        return False

    def deployment(self, name: str) -> Deployment:
        """The `deployment/v1` of a name, with this server's address."""
        return self.mmodel.deployment(name)

    def last_lines(self, count: int = 15) -> str:
        """The end of the server's log."""
        return redact("\n".join(self.log.read_text("utf-8", "replace").splitlines()[-count:]))

    def stop(self, *, grace_s: float | None = None) -> None:
        """Drains and ends the server; kills it after `grace_s`."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        grace_s = self.mmodel.settings.drain_s + 10 if grace_s is None else grace_s
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> Any:
        self.stop()


def free_port(host: str) -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
