"""One process of a site carries nodes on: it holds a lock, the reconciler and the boot service.

Whoever needs nodes carried on calls `Serving.ensure` now and then: the first gets the lock, the
others rely on it, and when it dies the kernel drops the lock and the next call takes over.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import socket
import threading
import time
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

from l0_infra_os._kit.files import atomic_write
from l0_infra_os._kit.problems import Failed, Problem, Unavailable
from l0_infra_os.ports import BootHost
from l0_infra_os.service.reconciler import Reconciler
from l0_infra_os.service.site import Site

from .boot import create_provisioning_app

log = logging.getLogger(__name__)


class Serving:
    """The part of a site that only one process runs at a time."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._lock_file: TextIOWrapper | None = None
        self._parts: tuple[Reconciler, HttpThread] | None = None
        self._guard = threading.Lock()

    @property
    def here(self) -> bool:
        """Whether this process is the one."""
        return self._parts is not None

    def ensure(self) -> bool:
        """Starts serving unless some process does; whether this one does now.

        `Unavailable` when there is no management segment to serve on.
        """
        with self._guard:
            if self._parts is not None:
                return True
            if not self._take_lock():
                return False
            try:
                self._parts = self._start()
            except BaseException:
                self._drop_lock()
                raise
            return True

    def stop(self) -> None:
        """Ends serving; nodes in flight go on when somebody serves again."""
        with self._guard:
            if self._parts is not None:
                reconciler, http = self._parts
                reconciler.stop()
                http.stop()
                self._parts = None
            self._drop_lock()

    def reserve_boot(self) -> None:
        """Tells network boot which machines it answers, with the addresses of the plan."""
        site = self.site
        controller, port = site.fabric.management.controller, site.settings.provisioning_port
        with site.store.begin() as tx:
            hosts = [
                BootHost(
                    nic.mac, site.addresses.address("management", node.number).partition("/")[0], node.id
                )
                for node in tx.nodes()
                for nic in node.ports
                if nic.kind == "management"
            ]
        with contextlib.suppress(Unavailable):  # bodies without network boot need none
            site.boot.reserve(hosts, boot_url=site.boot_url or f"http://{controller}:{port}/boot")

    def _start(self) -> tuple[Reconciler, HttpThread]:
        host, port = self.site.fabric.management.controller, self.site.settings.provisioning_port
        http = HttpThread(create_provisioning_app(self.site), host, port)
        self.site.boot_url = f"http://{host}:{http.port}/boot"
        http.start()
        lab = self.site.settings.lab_folder
        if lab.is_dir():
            atomic_write(lab / "boot-url", self.site.boot_url + "\n")
        self.reserve_boot()
        reconciler = Reconciler(self.site)
        reconciler.start()
        return reconciler, http

    def _take_lock(self) -> bool:
        path = self.site.settings.state_dir / "serving.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = open(path, "a", encoding="utf-8")  # noqa: SIM115 (held as long as we serve)
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            return False
        self._lock_file = stream
        return True

    def _drop_lock(self) -> None:
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None


class HttpThread:
    """A uvicorn server in a thread, on a socket that is bound before it starts."""

    def __init__(self, app: Any, host: str, port: int) -> None:
        import uvicorn

        try:
            self.socket = socket.create_server((host, port), backlog=1024)
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {host}:{port}",
                why=str(error),
                do="is the lab up? is another service on this port? (setting provisioning_port)",
            ) from error
        self.port: int = self.socket.getsockname()[1]
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)
        self.server = uvicorn.Server(config)
        sockets: Sequence[socket.socket] = [self.socket]
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": sockets}, name="l0-provisioning", daemon=True
        )

    def start(self) -> None:
        """Returns when the server answers."""
        self.thread.start()
        deadline = time.monotonic() + 30
        while not self.server.started:
            if not self.thread.is_alive() or time.monotonic() > deadline:
                raise Failed("the provisioning service did not start")
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=10)
        self.socket.close()


class Standby(threading.Thread):
    """Keeps trying to serve: for `infra-os serve` and the web application."""

    def __init__(self, serving: Serving, every_s: float = 2.0) -> None:
        super().__init__(name="l0-standby", daemon=True)
        self.serving = serving
        self.every_s = every_s
        self._stop_event = threading.Event()
        self._told = ""

    def run(self) -> None:
        while not self._stop_event.is_set():
            try:
                self.serving.ensure()
            except Problem as problem:
                if str(problem) != self._told:
                    self._told = str(problem)
                    log.warning("not provisioning: %s", problem)
            self._stop_event.wait(self.every_s)

    def stop(self) -> None:
        self._stop_event.set()
        self.join()
        self.serving.stop()
