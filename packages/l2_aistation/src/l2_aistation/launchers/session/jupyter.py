"""JupyterLab as a session: started, asked for its activity, ended.

Source of the activity: jupyter-server's REST interface (/api/kernels, /api/terminals); asking it this
way is no activity itself.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from l2_aistation._kit.problems import Unavailable

NAMES = ("jupyter-lab", "jupyter-server")
_UNTRACKED = {"no_track_activity": "1"}


class Jupyter:
    """A server of this job alone, with a token of its own that no command line shows."""

    def __init__(self, host: str, port: int, folder: Path) -> None:
        own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        program = next((found for name in NAMES if (found := shutil.which(name, path=own))), None)
        if program is None:
            raise Unavailable(
                "JupyterLab is not on this node",
                why=f"neither {' nor '.join(NAMES)} is on PATH",
                do="pip install 'l2-aistation[notebook]' on the nodes",
            )
        self._token = secrets.token_urlsafe(32)
        self._url = f"http://{host}:{port}"
        words = [program, "--no-browser", f"--ip={host}", f"--port={port}", "--port-retries=0"]
        words += [f"--ServerApp.root_dir={folder}", "--ServerApp.open_browser=False"]
        if os.geteuid() == 0:
            words.append("--allow-root")
        self.process = subprocess.Popen(words, env={**os.environ, "JUPYTER_TOKEN": self._token})
        self._http = httpx.Client(
            base_url=self._url, headers={"Authorization": f"token {self._token}"}, timeout=10, trust_env=False
        )

    def describe(self) -> dict[str, Any]:
        """How the owner comes in."""
        return {"kind": "jupyter", "url": f"{self._url}/lab", "token": self._token}

    def up(self) -> bool:
        """Whether it answers."""
        try:
            return self._http.get("/api/status").is_success
        except httpx.HTTPError:
            return False

    def activity(self) -> tuple[bool, float | None]:
        """Whether a kernel computes, and when a kernel or a terminal was last used."""
        kernels = self._list("/api/kernels")
        times = [
            datetime.fromisoformat(item["last_activity"]).timestamp()
            for item in kernels + self._list("/api/terminals")
            if item.get("last_activity")
        ]
        busy = any(kernel.get("execution_state") == "busy" for kernel in kernels)
        return busy, max(times, default=None)

    def _list(self, path: str) -> list[dict[str, Any]]:
        answer = self._http.get(path, params=_UNTRACKED)
        if answer.status_code == 404:  # terminals can be switched off
            return []
        answer.raise_for_status()
        items: list[dict[str, Any]] = answer.json()
        return items

    def end(self) -> None:
        """Lets it end its kernels."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
