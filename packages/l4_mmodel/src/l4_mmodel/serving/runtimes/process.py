"""A runtime's process: started, waited for, talked to over its socket, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from l4_mmodel._kit.logs import redact
from l4_mmodel._kit.problems import Failed, Unavailable

MODULES = {"safetensors": "transformers_server", "gguf": "llamacpp_server"}
EXTRAS = {"safetensors": ("transformers", "torch"), "gguf": ("llamacpp", "xllamacpp")}
POLL_S = 0.05


@dataclass(frozen=True)
class RuntimeSpec:
    """What a runtime runs: a model's folder (its file, for GGUF) and adapters by name."""

    format: str
    model: Path
    name: str
    adapters: Mapping[str, Path] = field(default_factory=dict)
    threads: int = 2
    dtype: str = "auto"
    context: int = 8192

    def command(self, socket: Path) -> list[str]:
        """The process's command line; it holds no secret."""
        command = [
            sys.executable, "-m", f"{__package__}.{MODULES[self.format]}",
            "--socket", str(socket), "--model", str(self.model), "--context", str(self.context),
            "--parent", str(os.getpid()),
        ]  # fmt: skip
        if self.format == "gguf":
            return [*command, "--name", self.name]
        adapters = json.dumps({name: str(folder) for name, folder in self.adapters.items()})
        return [*command, "--adapters", adapters, "--threads", str(self.threads), "--dtype", self.dtype]


class RuntimeProcess:
    """One runtime, from start to stop."""

    def __init__(self, spec: RuntimeSpec, folder: Path) -> None:
        _must_have_extra(spec.format)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.spec = spec
        self.id = secrets.token_hex(4)
        # A socket's path may have 107 bytes only, and the state folder can be deep.
        self.socket_folder = Path(tempfile.mkdtemp(prefix="ogai-l4-"))
        self.socket = self.socket_folder / "runtime.sock"
        self.log = folder / f"{spec.name.replace('/', '-')}-{self.id}.log"
        self.process: asyncio.subprocess.Process | None = None
        self.health: dict[str, Any] = {}
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        """The client of its socket; paths are `http://runtime/…`."""
        if self._session is None:
            connector = aiohttp.UnixConnector(str(self.socket), limit=0)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        return self._session

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.returncode is None

    async def ended(self, within_s: float = 2) -> bool:
        """Whether the process has ended; a connection may break a moment before that can be seen."""
        with contextlib.suppress(TimeoutError):
            if self.process is not None:
                await asyncio.wait_for(self.process.wait(), within_s)
        return not self.running

    async def start(self, timeout_s: float) -> None:
        """Starts the process and waits until it answers; `Failed` carries the log's last lines."""
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self.process = await asyncio.create_subprocess_exec(
                *self.spec.command(self.socket), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
        finally:
            os.close(log)
        try:
            async with asyncio.timeout(timeout_s):
                while not await self._answers():
                    if not self.running:
                        raise Failed(
                            "the runtime ended before it was ready",
                            why=self.last_lines() or f"code {self.process.returncode}, nothing in its log",
                            do="the same again; -9 is the kernel's way when memory runs out",
                        )
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            await self.stop(0)
            raise Failed(f"the runtime was not ready in {timeout_s:g} s", why=self.last_lines()) from None
        except BaseException:
            await self.stop(0)
            raise

    async def _answers(self) -> bool:
        if not self.socket.exists():
            return False
        try:
            async with self.session.get("http://runtime/health") as response:
                self.health = await response.json(content_type=None)
                return response.status == 200
        except (aiohttp.ClientError, OSError):
            return False

    @property
    def capabilities(self) -> set[str]:
        """What the runtime can do; llama.cpp's server has no echo and no scoring."""
        return set(self.health.get("capabilities", ["chat", "completions"]))

    @property
    def description(self) -> str:
        """Name and version, for reports."""
        if self.spec.format == "gguf":
            from importlib.metadata import version

            return f"llama.cpp (xllamacpp {version('xllamacpp')})"
        return str(self.health.get("runtime", "transformers"))

    async def post(self, path: str, body: Any, *, adapter: str = "") -> Any:
        """Posts JSON and returns the JSON answer; `Failed` for an error."""
        headers = {"x-ogai-adapter": adapter} if adapter else {}
        try:
            async with self.session.post(f"http://runtime{path}", json=body, headers=headers) as response:
                value = orjson.loads(await response.read() or b"{}")
        except orjson.JSONDecodeError as error:
            raise Failed(f"the runtime answered {response.status} without JSON", field=path) from error
        except (aiohttp.ClientError, OSError) as error:
            why = self.last_lines() if not self.running else str(error)
            raise Failed("the runtime went away during a request", why=why) from error
        if response.status != 200:
            raise Failed(str(value.get("error", {}).get("message", value)), field=path)
        return value

    async def load_adapter(self, name: str, folder: Path) -> None:
        """Adds an adapter to the running model."""
        await self.post("/adapters", {"name": name, "folder": str(folder)})

    async def stop(self, grace_s: float = 5) -> None:
        """Asks the process to end, kills it after `grace_s`, and removes its socket."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self.process is not None and self.running:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM if grace_s else signal.SIGKILL)
            try:
                await asyncio.wait_for(self.process.wait(), grace_s or 10)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()
        self.socket.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.socket_folder.rmdir()

    def last_lines(self, count: int = 8) -> str:
        """The end of its log, secrets taken out."""
        try:
            lines = self.log.read_text("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return ""
        return redact("\n".join(lines[-count:]))


def _must_have_extra(format_: str) -> None:
    from importlib.util import find_spec

    extra, module = EXTRAS[format_]
    if find_spec(module) is None:
        raise Unavailable(f"running {format_} models needs {module}", do=f"pip install 'l4-mmodel[{extra}]'")
