"""A private broker: started, watched, started again when it dies, gone with the platform."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import secrets
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from l2_aistation._kit.files import atomic_write
from l2_aistation._kit.problems import Conflict, Unavailable
from l2_aistation.settings import Settings
from l2_aistation.supervisor import processes

from . import program, urls

DEFAULT_PORT = 8479
"""Where a private broker listens for agents when `broker_listen` names no port."""

_START_S = 20.0
_MOST_EXITS_AT_START = 2
_LONGEST_SOCKET_PATH = 100  # sockaddr_un holds 108 bytes
_log = logging.getLogger(__name__)


class Broker:
    """A broker for this process; `url` is for its own clients, `agents_url` for other machines."""

    def __init__(self, folder: Path, *, url: str | None = None, listen: str | None = None) -> None:
        self._folder = folder
        self._given = url
        self._listen = urls.listening(listen, DEFAULT_PORT) if listen else None
        self._closing = threading.Event()
        self._up = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._lock: int | None = None
        self._exits = 0
        self.url = url or ""

    def start(self) -> str:
        """Starts the private server where no URL was given; returns the URL when it answers."""
        if self._given is None and self._thread is None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._take_folder()
            self.url = self._configure()
            self._thread = threading.Thread(target=self._run, name="broker", daemon=True)
            self._thread.start()
            self._up.wait(_START_S)
            if self._failure is not None:
                raise self._failure
        self._wait_until_it_answers()
        atomic_write(self._folder / "broker.json", json.dumps({"url": self.url}), mode=0o600)
        return self.url

    def _take_folder(self) -> None:
        self._lock = os.open(self._folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Conflict(
                "another process runs this broker",
                why=f"it holds {self._folder}",
                do="end the other service, or give this one its own OGAI_HOME",
            ) from None

    def _configure(self) -> str:
        password = ""
        socket: Path | None = None
        if self._listen is None:
            socket = self._socket_path()
            socket.unlink(missing_ok=True)
        else:
            password = self._password()
        text = program.configuration(self._folder, socket=socket, listen=self._listen, password=password)
        atomic_write(self._folder / "server.conf", text, mode=0o600)
        return urls.of_socket(str(socket)) if self._listen is None else urls.of_tcp(*self._listen, password)

    def _socket_path(self) -> Path:
        path = self._folder / "broker.sock"
        if len(str(path)) <= _LONGEST_SOCKET_PATH:
            return path
        name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
        short = Path(tempfile.gettempdir()) / f"ogai-{os.getuid()}-{name}"
        short.mkdir(mode=0o700, exist_ok=True)
        if short.stat().st_uid != os.getuid():
            raise Unavailable(f"{short} belongs to somebody else", do="set TMPDIR to a folder of your own")
        return short / "broker.sock"

    def _password(self) -> str:
        """Kept, so that agents find the way back after a restart of the platform."""
        path = self._folder / "password"
        if not path.exists():
            atomic_write(path, secrets.token_urlsafe(32), mode=0o600)
        return path.read_text("utf-8")

    def _run(self) -> None:
        """The thread that the server is a child of: the kernel ends the server with it."""
        try:
            server = program.find()
        except Unavailable as problem:
            self._failure = problem
            self._up.set()
            return
        me = os.getpid()
        while not self._closing.is_set():
            with open(self._folder / "output.log", "ab") as output:
                child = subprocess.Popen(
                    [server, str(self._folder / "server.conf")],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=lambda: processes.die_with(me),  # noqa: PLW1509 (one system call)
                )
            self._up.set()
            while child.poll() is None and not self._closing.wait(0.1):
                pass
            if self._closing.is_set():
                self._end(child)
                return
            self._exits += 1
            _log.warning("the broker ended with %s; it is started again", child.returncode)
            self._closing.wait(0.5)

    @staticmethod
    def _end(child: subprocess.Popen[bytes]) -> None:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def healthy(self) -> bool:
        """Whether the broker answers now."""
        import redis

        try:
            with urls.client(self.url, socket_timeout=2, socket_connect_timeout=2) as connection:
                return bool(connection.ping())
        except redis.RedisError:
            return False

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + (_START_S if self._given is None else 5.0)
        while not self.healthy():
            if time.monotonic() > until or self._exits >= _MOST_EXITS_AT_START:
                self.stop()
                raise Unavailable(
                    "the message broker does not answer",
                    why=self._why(),
                    do="look at the address and the password of broker_url, or at broker_listen's address",
                )
            time.sleep(0.05)

    def _why(self) -> str:
        if self._given is not None:
            return "no answer at the configured URL"
        with contextlib.suppress(OSError):
            lines = (self._folder / "server.log").read_text("utf-8", "replace").splitlines()
            return "; ".join(line.partition("# ")[2] or line for line in lines[-2:]) or "it wrote nothing"
        return "the server did not start"

    def stop(self) -> None:
        """Ends the private server; a given one is left alone."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def folder_of(settings: Settings) -> Path:
    """Where a private broker keeps its files."""
    return settings.state_dir / "broker"


def open_broker(settings: Settings) -> Broker:
    """The settings' broker, started and answering."""
    broker = Broker(folder_of(settings), url=settings.broker_url, listen=settings.broker_listen)
    broker.start()
    return broker


def url_for_agents(settings: Settings) -> str:
    """The URL that an agent needs, with the password in it: print it only where it is asked for."""
    if settings.broker_url is not None:
        return settings.broker_url
    try:
        url: str = json.loads((folder_of(settings) / "broker.json").read_text("utf-8"))["url"]
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable(
            "no broker has been started here",
            why=f"{folder_of(settings) / 'broker.json'} is not there",
            do="start `aistation serve --broker-listen ADDRESS` first",
        ) from error
    return url
