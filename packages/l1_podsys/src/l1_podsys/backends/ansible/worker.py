"""Runs one playbook with ansible-runner: `python -m l1_podsys.backends.ansible.worker FOLDER`.

Prints one JSON line for each event that the executor needs.  Its stdin is a lifeline: when the
parent is gone, whatever way, the stream ends and the whole tree of ansible's processes is killed.
So it is when one of ansible's processes was killed: ansible waits for its answer for ever.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "ANSIBLE_PIPELINING": "1",
    "ANSIBLE_RETRY_FILES_ENABLED": "0",
    "ANSIBLE_HOST_KEY_CHECKING": "1",
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_INJECT_FACT_VARS": "0",
    "ANSIBLE_DEPRECATION_WARNINGS": "0",
    "ANSIBLE_INTERPRETER_PYTHON_FALLBACK": "python3",
    "ANSIBLE_LOCALHOST_WARNING": "0",
}


STALL_CHECK_S, STALL_S = 2.0, 45.0
PR_SET_CHILD_SUBREAPER = 36


def children_of(root: int, *, deep: bool = True) -> list[int]:
    """The living descendants of a process, by /proc; workers of ansible have sessions of their own."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found: list[int] = []
    front = [root]
    while front and (deep or not found):
        front = [child for parent in front for child in parents.get(parent, [])]
        found += front
    return found


def kill_all_below() -> None:
    """Kills every process below this one."""
    for _ in range(3):  # a second look: one may have forked while we were looking
        for process in reversed(children_of(os.getpid())):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


def end_with_parent() -> None:
    """Waits for the end of stdin, then kills the tree below us, then us."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        kill_all_below()
        os._exit(130)

    threading.Thread(target=watch, daemon=True).start()


class Stall:
    """Kills the tree below us when ansible waits for the answer of a process that was killed.

    A task runs in a child of the playbook's process.  When there were some, and for a while there is
    none that lives and no event, nothing will ever come; the runner then ends as failed.
    """

    def __init__(self) -> None:
        self.last_sign = math.inf  # until the first: reading the playbook may take its time
        threading.Thread(target=self._watch, daemon=True).start()

    def event(self) -> None:
        """A sign of life."""
        self.last_sign = time.monotonic()

    def _watch(self) -> None:
        while True:
            time.sleep(STALL_CHECK_S)
            playbooks = children_of(os.getpid(), deep=False)
            if any(children_of(playbook) for playbook in playbooks):
                self.event()
            elif time.monotonic() - self.last_sign > STALL_S:
                print("a process of ansible was killed: it waits for nothing", file=sys.stderr, flush=True)
                kill_all_below()
                return


def message_of(result: dict[str, Any]) -> str:
    """Why a task failed, in one line."""
    if result.get("censored"):
        return "the result is private"
    for name in ("msg", "stderr", "module_stderr", "stdout"):
        if result.get(name):
            return " ".join(str(result[name]).split())[:600]
    failed = [row for row in result.get("results", []) if row.get("failed")]
    return message_of(failed[0]) if failed else "no message"


def event_line(event: dict[str, Any]) -> dict[str, Any] | None:
    """What the executor needs of one event of ansible-runner, or nothing."""
    kind, data = event.get("event", ""), event.get("event_data") or {}
    if kind == "playbook_on_play_start":
        return {"event": "play", "play": data.get("name") or data.get("play", "")}
    if kind == "runner_on_failed" and not data.get("ignore_errors"):
        text = f"{data.get('task', '')}: {message_of(data.get('res') or {})}"
        return {"event": "fail", "host": data.get("host"), "play": data.get("play"), "detail": text}
    if kind == "runner_on_unreachable":
        text = message_of(data.get("res") or {})
        return {"event": "fail", "host": data.get("host"), "play": data.get("play"), "detail": text}
    if kind in ("runner_on_ok", "runner_on_skipped", "runner_on_start"):
        short = kind.removeprefix("runner_on_")
        return {"event": short, "host": data.get("host"), "play": data.get("play"), "task": data.get("task")}
    return None


def main(folder: str, forks: int) -> int:
    """Runs `site.yml` of a private data folder; the answer is ansible's code."""
    import ansible_runner

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # what ansible leaves when it is killed stays below
    end_with_parent()
    stall = Stall()
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def on_event(event: dict[str, Any]) -> bool:
        stall.event()
        line = event_line(event)
        if line is not None:
            output.write(json.dumps(line) + "\n")
            output.flush()
        return True  # anything else and ansible-runner keeps no event, and no statistics

    roles = Path(__file__).resolve().parent.parent.parent / "roles"
    programs = str(Path(sys.executable).parent)
    environment = ENVIRONMENT | {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_ROLES_PATH": str(roles),
        "ANSIBLE_LIBRARY": str(roles / "library"),
        "ANSIBLE_HOME": str(Path(folder) / "ansible"),
        "ANSIBLE_LOCAL_TEMP": str(Path(folder) / "ansible" / "tmp"),
    }
    runner = ansible_runner.run(
        private_data_dir=folder,
        playbook="site.yml",
        envvars=environment,
        forks=forks,
        quiet=True,
        event_handler=on_event,
    )
    if runner.status != "successful":
        kill_all_below()
    output.write(json.dumps({"event": "end", "status": runner.status, "rc": runner.rc}) + "\n")
    output.flush()
    return int(runner.rc or (runner.status != "successful"))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], int(sys.argv[2])))
