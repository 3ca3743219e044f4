"""Keeps the runtimes of wanted deployments alive: starts, watches, restarts, drains."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from l4_mmodel._kit.problems import Conflict, NotFound, Problem

from .deployments import RUNNING, DeploymentRow, Deployments
from .loops import repeat
from .runtimes.process import RuntimeProcess, RuntimeSpec
from .runtimes.remote import Remote

logger = logging.getLogger(__name__)

POLL_S = 0.2
RESTART_S = (0.0, 0.5, 2, 5, 15, 30)
"""Waits before the first, second … restart in a row."""

SETTLED_S = 30
"""A runtime that has lived this long starts its waits anew when it is lost."""


@dataclass
class Served:
    """A deployment that a runtime answers for."""

    row: DeploymentRow
    adapter: str = ""
    open: int = 0
    """Requests under way."""

    def __post_init__(self) -> None:
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def model(self) -> str:
        """The name that clients use."""
        return self.row.name

    def enter(self) -> None:
        """A request begins."""
        self.open += 1
        self._idle.clear()

    def leave(self) -> None:
        """A request has ended."""
        self.open -= 1
        if self.open == 0:
            self._idle.set()

    async def drained(self, timeout_s: float) -> None:
        """Waits until no request is under way, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)


@dataclass
class Runtime:
    """A base model's process, or a remote URL, with the deployments that it answers for."""

    backend: RuntimeProcess | Remote
    served: dict[int, Served] = field(default_factory=dict)
    ready: bool = False
    started: float = 0.0
    failures: int = 0
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True)
class Plan:
    """What a deployment needs: `group` deployments share a process."""

    group: str
    spec: RuntimeSpec | None
    upstream: dict[str, Any] | None
    adapter: str = ""
    adapter_folder: Path | None = None


class Supervisor:
    """One per gateway process.  `plan` verifies a version's files and says how to run them."""

    def __init__(
        self, deployments: Deployments, plan: Callable[[DeploymentRow], Plan], run_dir: Path, *,
        start_timeout_s: float, drain_s: float, released: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.deployments = deployments
        self.plan = plan
        self.run_dir = run_dir
        self.start_timeout_s = start_timeout_s
        self.drain_s = drain_s
        self.released = released  # called when a runtime has ended, with its files
        self.runtimes: dict[str, Runtime] = {}
        self.serving: dict[tuple[str, str], tuple[Runtime, Served]] = {}
        self.url = ""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._seen = -1

    def find(self, tenant: str, name: str) -> tuple[Runtime, Served] | None:
        """The runtime that answers for a tenant's deployment, if it is ready."""
        return self.serving.get((tenant, name))

    async def run(self) -> None:
        """Follows the store until cancelled, then drains."""
        try:
            await repeat(self._follow, POLL_S)
        finally:
            await asyncio.shield(self.close())

    async def _follow(self) -> None:
        generation = await asyncio.to_thread(self.deployments.store.generation)
        if generation != self._seen:
            await self.reconcile()
            self._seen = generation

    async def reconcile(self) -> None:
        """Begins what the store wants and is not running, ends what it does not want any more."""
        rows = {row.id: row for row in await asyncio.to_thread(self.deployments.all, None)}
        for row in rows.values():
            current = self.serving.get((row.tenant, row.name))
            if row.state in RUNNING and row.id not in self._tasks:
                if current is None or current[1].row.version_id != row.version_id:
                    self._begin(row.id, self._start(row))
            elif row.state == "draining" and row.id not in self._tasks:
                self._begin(row.id, self._drain(row))

    def _begin(self, row_id: int, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks[row_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(row_id, None))

    async def _start(self, row: DeploymentRow) -> None:
        await self._happen(row, "start")
        try:
            plan = await asyncio.to_thread(self.plan, row)
            runtime = await self._runtime(plan, row)
            old = self.serving.get((row.tenant, row.name))
            served = Served(row, plan.adapter)
            runtime.served[row.id] = served
            self.serving[row.tenant, row.name] = (runtime, served)
            if old is not None and old[0] is not runtime:
                self._begin(-row.id, self._retire(old[0], old[1]))
        except Problem as problem:
            logger.warning("deployment %s failed: %s", row.name, problem)
            await self._happen(row, "fail", detail=str(problem))
            return
        except Exception as error:
            logger.exception("deployment %s failed", row.name)
            await self._happen(row, "fail", detail=f"{type(error).__name__}: {error}")
            return
        if self.url:
            await asyncio.to_thread(self.deployments.at, row.id, self.url)
        await self._happen(row, "ready")

    async def _runtime(self, plan: Plan, row: DeploymentRow) -> Runtime:
        """The group's runtime, started if there is none, with the plan's adapter loaded."""
        runtime = self.runtimes.get(plan.group)
        if runtime is None:
            runtime = self.runtimes[plan.group] = Runtime(self._backend(plan))
            try:
                await runtime.backend.start(self.start_timeout_s)
            except BaseException:
                self.runtimes.pop(plan.group, None)
                raise
            runtime.ready, runtime.started = True, time.monotonic()
            runtime.task = asyncio.create_task(self._watch(plan, runtime))
        while not runtime.ready:
            await asyncio.sleep(0.05)
            if self.runtimes.get(plan.group) is not runtime:
                raise Conflict(f"the runtime for {row.name} did not start", do="look at its log")
        if plan.adapter_folder is not None and isinstance(runtime.backend, RuntimeProcess):
            await runtime.backend.load_adapter(plan.adapter, plan.adapter_folder)
        return runtime

    def _backend(self, plan: Plan) -> RuntimeProcess | Remote:
        if plan.spec is None:
            assert plan.upstream is not None
            return Remote(**plan.upstream)
        return RuntimeProcess(plan.spec, self.run_dir)

    async def _watch(self, plan: Plan, runtime: Runtime) -> None:
        """Restarts a process that ended by itself, after a wait that grows with each failure."""
        while isinstance(runtime.backend, RuntimeProcess):
            process = runtime.backend.process
            assert process is not None
            await process.wait()
            runtime.ready = False
            if time.monotonic() - runtime.started > SETTLED_S:
                runtime.failures = 0
            why = f"the runtime ended with code {process.returncode}"
            logger.warning("%s; restarting", why)
            for served in list(runtime.served.values()):
                await self._happen(served.row, "lost", detail=why)
            await runtime.backend.stop(0)
            await self._restart(plan, runtime)

    async def _restart(self, plan: Plan, runtime: Runtime) -> None:
        while True:
            await asyncio.sleep(RESTART_S[min(runtime.failures, len(RESTART_S) - 1)])
            runtime.failures += 1
            backend = self._backend(plan)
            try:
                await backend.start(self.start_timeout_s)
                for served in runtime.served.values():
                    again = await asyncio.to_thread(self.plan, served.row)
                    if again.adapter_folder is not None and isinstance(backend, RuntimeProcess):
                        await backend.load_adapter(again.adapter, again.adapter_folder)
            except Problem as problem:
                logger.warning("restart failed: %s", problem)
                await backend.stop(0)
                continue
            runtime.backend, runtime.ready, runtime.started = backend, True, time.monotonic()
            for served in list(runtime.served.values()):
                await self._happen(served.row, "ready")
            return

    async def _drain(self, row: DeploymentRow) -> None:
        """Takes no new request, waits for those under way, then ends."""
        current = self.serving.pop((row.tenant, row.name), None)
        if current is not None:
            await self._retire(*current)
        await self._happen(row, "drained")

    async def _retire(self, runtime: Runtime, served: Served) -> None:
        await served.drained(self.drain_s)
        if runtime.served.get(served.row.id) is served:
            del runtime.served[served.row.id]
        if not runtime.served:
            await self._stop(runtime)

    async def _stop(self, runtime: Runtime) -> None:
        self.runtimes = {group: one for group, one in self.runtimes.items() if one is not runtime}
        if runtime.task is not None:
            runtime.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await runtime.task
        await runtime.backend.stop()
        await asyncio.to_thread(self.released)

    async def close(self) -> None:
        """Waits for requests under way and stops every runtime; the store keeps what is wanted."""
        under_way = list(self._tasks.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await asyncio.gather(*(served.drained(self.drain_s) for _, served in self.serving.values()))
        self.serving.clear()
        for runtime in list(self.runtimes.values()):
            await self._stop(runtime)

    async def _happen(self, row: DeploymentRow, event: str, *, detail: str = "") -> None:
        with contextlib.suppress(Conflict, NotFound):  # a user's stop may have been first
            await asyncio.to_thread(self.deployments.happen, row.id, event, detail=detail)


def group_name(*parts: str) -> str:
    """A name for deployments that may share a process."""
    return json.dumps(parts)
