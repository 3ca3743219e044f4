"""notebook: JupyterLab or an SSH session as a job; idle, it gives its place back and completes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from l2_aistation._kit.problems import BadInput
from l2_aistation.documents import JobSpec, Preset

from .launcher import Launch, Launcher, Option, Place

SESSION = "session.json"


def session_of(shared: Path, job: str, attempt: int) -> dict[str, Any] | None:
    """How the owner reaches a session ({kind, url, token} or {kind, host, port, user}); None where it
    is not up.  It holds a secret: for the job's owner alone."""
    path = shared / ".aistation" / job / str(attempt) / SESSION
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found


class Notebook(Launcher):
    """A session at the address of its node, on the port that the platform gave the attempt."""

    name = "notebook"
    needs_script = False
    options: ClassVar[Mapping[str, Option]] = {
        "kind": Option(("jupyter", "ssh")),
        "public_key": Option(str),
        "folder": Option(str),
    }

    def check(self, spec: JobSpec, number: int) -> None:
        """Also: a session is one task, and one over SSH needs to know whom to let in."""
        super().check(spec, number)
        group, where = spec.tasks[number], f"tasks.{number}.preset"
        preset = group.preset
        assert preset is not None
        if len(spec.tasks) > 1 or group.count > 1:
            raise BadInput("a session is one task", field=where, do="leave count at 1")
        if preset.script is not None or preset.arguments:
            raise BadInput("a session takes no script", field=f"{where}.script", do="leave it out")
        if preset.options.get("kind") == "ssh" and not str(preset.options.get("public_key", "")).startswith(
            ("ssh-", "ecdsa-", "sk-")
        ):
            raise BadInput(
                "ssh needs the key of who may come in",
                field=f"{where}.options.public_key",
                do="give the line of your .pub file",
            )
        folder = str(preset.options.get("folder", ""))
        if folder.startswith("/") or ".." in folder.split("/"):
            raise BadInput(f"{folder!r} leaves the shared folder", field=f"{where}.options.folder")

    def launch(self, preset: Preset, place: Place) -> Launch:
        """`python -m l2_aistation.launchers.session`; all it needs to know is in its environment."""
        environment = {
            "OGAI_SESSION_KIND": str(preset.options.get("kind", "jupyter")),
            "OGAI_SESSION_FOLDER": str(preset.options.get("folder", "")),
            "OGAI_SESSION_PUBLIC_KEY": str(preset.options.get("public_key", "")),
        }
        if place.idle is not None:
            environment["OGAI_IDLE_AFTER_S"] = str(place.idle.after_s)
            environment["OGAI_IDLE_ACCELERATOR_BELOW"] = str(place.idle.accelerator_below)
        return Launch(("python", "-P", "-m", "l2_aistation.launchers.session"), environment)
