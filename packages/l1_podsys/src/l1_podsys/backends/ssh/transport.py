"""Runs programs on hosts through the `ssh` client."""

from __future__ import annotations

import contextlib
import io
import json
import queue
import shlex
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from l1_podsys._kit.problems import Failed, Problem, Unavailable
from l1_podsys.core.inventory import Host, Inventory
from l1_podsys.ports import Upload

from .config import write_config

CHANGED_KEY = ("REMOTE HOST IDENTIFICATION HAS CHANGED", "Host key verification failed")


class SshTransport:
    """Reaches the hosts of one inventory.  `folder` keeps the cluster's known host keys."""

    def __init__(
        self, inventory: Inventory, folder: Path, *, connect_timeout_s: int = 8, persist_s: int = 20
    ) -> None:
        if shutil.which("ssh") is None:
            raise Unavailable("there is no ssh client", do="apt-get install openssh-client")
        self.inventory = inventory
        self.hosts = {host.id: host for host in inventory.hosts}
        self.files = write_config(inventory, folder, connect_timeout_s=connect_timeout_s, persist_s=persist_s)

    def run(self, host: str, program: str, timeout_s: float) -> str:
        """Feeds a Python program to the host's Python and returns what it prints."""
        return self._call(host, f"{self._python(host)} -IS -", program.encode(), timeout_s)

    def upload(self, host: str, folder: str, files: Iterable[Upload]) -> None:
        """Sends files as one tar stream into a folder that only root of the host can read."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for file in files:
                data = file.content if isinstance(file.content, bytes) else file.content.read_bytes()
                entry = tarfile.TarInfo(file.name)
                entry.size, entry.mode = len(data), 0o600
                tar.addfile(entry, io.BytesIO(data))
        place = shlex.quote(folder)
        script = f"umask 077 && mkdir -p {place} && tar -x --no-same-owner -C {place} -f -"
        self._call(host, f"{self._sudo(host)}sh -c {shlex.quote(script)}", archive.getvalue(), 300)

    @contextlib.contextmanager
    def session(self, host: str, program: str) -> Iterator[LineSession]:
        """A program on the host that answers JSON lines; it ends with the block."""
        # The program's length goes first, so that its orders can follow on the same stream.
        size = len(program.encode())
        loader = (
            "import sys\nb=b''\n"
            f"while len(b)<{size}:\n c=sys.stdin.buffer.read({size}-len(b))\n if not c: sys.exit(1)\n b+=c\n"
            "exec(compile(b,'podsys','exec'),globals())"
        )
        command = f"{self._python(host)} -IS -c {shlex.quote(loader)}"
        process = subprocess.Popen(
            self._argv(host, command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        session = LineSession(self.hosts[host], process, self._explain)
        try:
            session.send(program.encode())
            yield session
        finally:
            session.close()

    def close(self) -> None:
        """Ends the kept connections of this cluster, each after what still uses it."""
        sockets = list(self.files.sockets.glob("*"))
        calls = [
            subprocess.Popen(
                ["ssh", "-F", str(self.files.config), "-o", f"ControlPath={socket}", "-O", "stop", "x"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for socket in sockets
        ]
        for call in calls:
            try:
                call.wait(5)
            except subprocess.TimeoutExpired:
                call.kill()
                call.wait()

    def forget(self, host: str) -> None:
        """Forgets a host's key, for a host that was installed anew."""
        command = ["ssh-keygen", "-q", "-f", str(self.files.known_hosts), "-R", host]
        subprocess.run(command, capture_output=True, check=False)

    def _argv(self, host: str, command: str) -> list[str]:
        return ["ssh", "-F", str(self.files.config), "-T", host, "--", command]

    def _sudo(self, host: str) -> str:
        return "" if self.inventory.login(self.hosts[host]).user == "root" else "sudo -n "

    def _python(self, host: str) -> str:
        return self._sudo(host) + shlex.quote(self.hosts[host].python)

    def _call(self, host: str, command: str, stdin: bytes, timeout_s: float) -> str:
        try:
            done = subprocess.run(
                self._argv(host, command), input=stdin, capture_output=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(
                f"{self.hosts[host].hostname} gave no answer in {timeout_s:g} s",
                do="look at its load and at its network",
            ) from error
        if done.returncode != 0:
            raise self._explain(self.hosts[host], done.returncode, done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "replace")

    def _explain(self, host: Host, code: int, stderr: str) -> Problem:
        """A failed ssh call in words: who, why, what to do."""
        login = self.inventory.login(host)
        place = f"{host.hostname} ({login.user}@{host.address}:{login.port})"
        lines = [line.strip() for line in stderr.splitlines() if line.strip()]
        why = lines[-1] if lines else f"ssh ended with code {code}"
        if any(sign in stderr for sign in CHANGED_KEY):
            return Unavailable(
                f"the host key of {place} has changed",
                why="the host was installed anew, or another machine answers at its address",
                do=f"if it was installed anew: podsys forget {host.id}",
            )
        if code == 255:
            advice = "check the address, the port and that the host is up"
            if "Permission denied" in stderr:
                advice = f"put the public half of {login.key or 'your key'} into its authorized_keys"
            return Unavailable(f"cannot log in to {place}", why=why, do=advice)
        if code == 127:
            return Unavailable(
                f"{place} has no {host.python}",
                why=why,
                do="install python3 there, or set `python` of the host",
            )
        if "a password is required" in stderr:
            return Unavailable(
                f"{login.user} may not use sudo on {place}", why=why, do="allow it without password"
            )
        return Failed(f"a program failed on {place} with code {code}", why=why)


class LineSession:
    """One running program on a host; orders and answers are JSON lines."""

    def __init__(self, host: Host, process: subprocess.Popen[bytes], explain: Any) -> None:
        self.host = host
        self.process = process
        self.explain = explain
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def send(self, data: bytes) -> None:
        """Writes to the program's input; a program that has ended is told by `ask`."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def ask(self, order: dict[str, Any], timeout_s: float = 30) -> dict[str, Any]:
        """The answer to one order."""
        self.send(json.dumps(order).encode() + b"\n")
        try:
            line = self.lines.get(timeout=timeout_s)
        except queue.Empty:
            raise Unavailable(f"{self.host.hostname} gave no answer in {timeout_s:g} s") from None
        if not line:
            assert self.process.stderr is not None
            stderr = self.process.stderr.read().decode("utf-8", "replace")
            raise self.explain(self.host, self.process.wait(5), stderr)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.host.hostname}: {order['do']} failed", why=str(answer["error"]))
        return answer

    def close(self) -> None:
        """Ends the program."""
        self.send(b'{"do": "stop"}\n')
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(2)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
