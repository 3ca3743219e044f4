"""Evaluations asked for through REST: each a supervised process, `mmodel eval`, that can be resumed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from l4_mmodel._kit.files import atomic_write
from l4_mmodel._kit.logs import redact
from l4_mmodel._kit.problems import Conflict, NotFound
from l4_mmodel.settings import Settings

MOST_AT_ONCE = 1
"""Evaluations at once: they measure latency, and must not disturb each other."""

KEPT = 200


@dataclass
class Run:
    """One evaluation under way or ended."""

    id: str
    tenant: str
    suite: str
    models: list[str]
    state: str
    started_at: float
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return dict(vars(self))


class Runs:
    """The evaluations of this process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rows: dict[str, Run] = {}
        self._gate = asyncio.Semaphore(MOST_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def all(self, tenant: str | None) -> list[Run]:
        """Newest first."""
        rows = [run for run in self.rows.values() if tenant in (None, run.tenant)]
        return sorted(rows, key=lambda run: -run.started_at)

    def get(self, run_id: str, tenant: str | None) -> Run:
        """One run; `NotFound` also for another tenant's."""
        run = self.rows.get(run_id)
        if run is None or tenant not in (None, run.tenant):
            raise NotFound(f"no evaluation run {run_id!r}")
        return run

    def start(self, suite: dict[str, Any], models: Sequence[str], tenant: str) -> Run:
        """Begins an evaluation; the suite's data must be registered data sets."""
        if sum(run.state in ("waiting", "running") for run in self.rows.values()) >= 20:
            raise Conflict("20 evaluations are waiting already", do="try again when some have ended")
        run = Run(secrets.token_hex(6), tenant, str(suite["name"]), list(models), "waiting", time.time())
        self.rows[run.id] = run
        for old in list(self.rows)[:-KEPT]:
            del self.rows[old]
        folder = self.settings.state_dir / "evaluations" / "runs"
        path = folder / f"{run.id}.yaml"
        atomic_write(path, yaml.safe_dump(suite, allow_unicode=True), mode=0o600)
        task = asyncio.create_task(self._run(run, path))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    async def _run(self, run: Run, path: Path) -> None:
        async with self._gate:
            run.state = "running"
            models = [part for model in run.models for part in ("--model", model)]
            command = [sys.executable, "-m", "l4_mmodel.cli", "eval", str(path), *models]
            environment = {
                **os.environ, "OGAI_L4_TENANT": run.tenant, "OGAI_L4_HOME": str(self.settings.home),
                "OGAI_HOME": str(self.settings.home), "OGAI_L4_DATABASE_URL": self.settings.database_url,
            }  # fmt: skip
            process = await asyncio.create_subprocess_exec(
                *command, "--parent", str(os.getpid()), env=environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                _, errors = await process.communicate()
            finally:
                if process.returncode is None:
                    process.kill()
            run.state = "done" if process.returncode == 0 else "failed"
            run.detail = (
                redact(errors.decode("utf-8", "replace").strip()[-1000:]) if process.returncode else ""
            )
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def close(self) -> None:
        """Ends what is under way; asked for again, it goes on where it was."""
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
