"""Turns work into one playbook and runs it: a play for each role, with the hosts that need it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from l1_podsys._kit.files import atomic_write
from l1_podsys._kit.problems import Failed, Unavailable
from l1_podsys.ports import Work

Report = Callable[[str, str, str, str], None]


class AnsibleExecutor:
    """Applies roles over the cluster's SSH configuration.

    `folder` is private and emptied afterwards; `uploads` is where a host's uploaded files lie;
    `pythons` names each host's interpreter and `become` the hosts whose login is not root.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ssh_config: Path,
        uploads: str,
        pythons: dict[str, str],
        become: set[str],
        forks: int = 32,
    ) -> None:
        if importlib.util.find_spec("ansible_runner") is None or importlib.util.find_spec("ansible") is None:
            raise Unavailable(
                "ansible-runner is not installed",
                why="it sets what differs on the hosts",
                do="pip install 'l1-podsys[ansible]'",
            )
        self.folder = folder
        self.ssh_config = ssh_config
        self.uploads = uploads
        self.pythons = pythons
        self.become = become
        self.forks = forks

    def apply(self, work: list[Work], report: Report) -> None:
        """Runs the plays; every pair of `work` is reported as done or failed before it returns."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        try:
            self._write(work)
            self._run(work, report)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, work: list[Work]) -> None:
        inventory = {"all": {"hosts": {}, "vars": {"podsys_uploads": self.uploads}}}
        hosts: dict[str, Any] = inventory["all"]["hosts"]
        for item in work:
            hosts[item.host] = {
                "podsys": item.roles,
                "ansible_ssh_common_args": f"-F {self.ssh_config}",
                "ansible_ssh_args": "",
                "ansible_python_interpreter": _interpreter(self.pythons[item.host]),
                "ansible_become": item.host in self.become,
            }
        roles = dict.fromkeys(role for item in work for role in item.roles)
        plays = [
            {
                "name": role,
                "hosts": ",".join(item.host for item in work if role in item.roles),
                "gather_facts": False,
                "strategy": "free" if len(work) > 1 else "linear",
                "roles": [role],
            }
            for role in roles
        ]
        atomic_write(self.folder / "inventory" / "hosts.yml", _literal_yaml(inventory), mode=0o600)
        atomic_write(self.folder / "project" / "site.yml", json.dumps(plays), mode=0o600)

    def _run(self, work: list[Work], report: Report) -> None:
        log = self.folder / "worker.log"
        command = [
            sys.executable,
            "-m",
            "l1_podsys.backends.ansible.worker",
            str(self.folder),
            str(self.forks),
        ]
        progress = Progress(work, report)
        with open(log, "wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    progress.take(json.loads(line))
                process.wait()
            finally:
                # Closing its stdin, the lifeline, ends the worker and all below it.
                process.stdin.close()  # type: ignore[union-attr]
                process.stdout.close()  # type: ignore[union-attr]
                process.wait()
        progress.finish(process.returncode, log.read_text("utf-8", "replace").strip()[-400:])


class _Literal(str):
    """A text that ansible must not take for a template, whatever it holds."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes `_Literal` texts with ansible's `!unsafe` tag."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


_Dumper.add_representer(
    _Literal, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"')
)


def _literal_yaml(inventory: dict[str, Any]) -> str:
    for host in inventory["all"]["hosts"].values():
        host["podsys"] = _literal(host["podsys"])
    return yaml.dump(inventory, Dumper=_Dumper, sort_keys=False)


def _literal(value: Any) -> Any:
    # Only texts that look like templates: ansible reads a tagged "0644" as a number, untagged as text.
    if isinstance(value, str):
        return _Literal(value) if "{" in value else value
    if isinstance(value, list):
        return [_literal(item) for item in value]
    if isinstance(value, dict):
        return {name: _literal(item) for name, item in value.items()}
    return value


def _interpreter(python: str) -> str:
    return python if python.startswith("/") else f"/usr/bin/{python}"


class Progress:
    """Follows a playbook's events and reports each pair's start and end once."""

    def __init__(self, work: list[Work], report: Report) -> None:
        self.waiting = {item.host: list(item.roles) for item in work}
        self.report = report
        self.current: str | None = None
        self.started: set[tuple[str, str]] = set()
        self.failed: dict[str, str] = {}

    def take(self, event: dict[str, Any]) -> None:
        """One event of the worker.  A host's earlier roles are done when a later play begins."""
        if event["event"] == "play":
            self._close_play()
            self.current = event["play"]
            return
        host = event.get("host")
        if host is None or self.current is None:
            return
        self._start(host, self.current)
        if event["event"] == "fail":
            self.failed[host] = event["detail"]

    def _start(self, host: str, role: str) -> None:
        if (host, role) not in self.started and role in self.waiting.get(host, []):
            self.started.add((host, role))
            self.report(host, role, "start", "")

    def _close_play(self) -> None:
        """The play that has run is over: its hosts are done with it, or have failed in it."""
        for host, roles in self.waiting.items():
            if self.current in roles and (host, self.current) in self.started:
                self._end(host, str(self.current))

    def _end(self, host: str, role: str) -> None:
        detail = self.failed.get(host)
        self.waiting[host].remove(role)
        self.report(host, role, "fail" if detail else "done", detail or "")
        if detail:
            for other in self.waiting[host]:
                self.report(host, other, "fail", f"not tried: {role} failed before it")
            self.waiting[host] = []

    def finish(self, code: int, errors: str) -> None:
        """After the last event: the last play is closed; what was never reached has failed."""
        self._close_play()
        left = [(host, role) for host, roles in self.waiting.items() for role in roles]
        for host, role in left:
            self.report(
                host, role, "fail", f"ansible ended with code {code} before it: {errors or 'no output'}"
            )
        if left and not self.started:
            raise Failed(
                "ansible ended before its first task",
                why=errors or f"code {code}, no output",
                do="podsys apply again: the run goes on",
            )
