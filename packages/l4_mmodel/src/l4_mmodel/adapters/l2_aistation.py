"""Evaluations as jobs of AIStation: placed, watched and healed there."""

from __future__ import annotations

from collections.abc import Sequence

from l2_aistation.api import Aistation

from l4_mmodel._kit.problems import Failed


class AistationJobs:
    """A `JobRunner`.  Without arguments: this machine's platform, with the operator's token."""

    def __init__(self, url: str | None = None, token: str | None = None, *, queue: str = "default") -> None:
        self.url = url
        self.token = token
        self.queue = queue

    def run(self, name: str, command: Sequence[str], environment: dict[str, str]) -> str:
        """Submits the job and waits for its end."""
        task = {"count": 1, "command": list(command), "environment": environment}
        with Aistation(self.url, self.token) as client:
            job = client.submit({"name": name, "queue": self.queue, "tasks": [task]})
            identity = str(job["id"])
            client.wait(identity)
            record = client.record(identity)
        if record.state != "completed":
            causes = ", ".join(attempt.cause or "" for attempt in record.attempts)
            raise Failed(f"job {identity} is {record.state}", why=causes, do=f"aistation logs {identity}")
        return identity
