"""The Python client of the platform's REST interface.

aistation = Aistation("http://127.0.0.1:8472", token)
job = aistation.submit({"name": "train", "tasks": [{"count": 4, "command": ["python", "train.py"]}]})
for event in aistation.watch(job["id"]): ...
record = aistation.record(job["id"])
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Self
from urllib.parse import quote

import httpx

from ._kit.documents import Document
from ._kit.problems import (
    BadInput,
    Conflict,
    Failed,
    Forbidden,
    NotFound,
    Problem,
    Unauthorized,
    Unavailable,
)
from ._kit.tokens import TokenStore
from .documents import JobRecord
from .settings import Settings

FINAL = ("completed", "failed", "cancelled")
PROBLEMS: dict[int, type[Problem]] = {
    400: BadInput,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: BadInput,
    409: Conflict,
    413: BadInput,
    422: BadInput,
    503: Unavailable,
}


class Aistation:
    """A platform somewhere.  Without arguments: this machine's, with the operator's token.

    Every method raises the same `Problem` that the command line prints.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        settings: Settings | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        settings = settings or Settings.load()
        self.url = (url or settings.service_url).rstrip("/")
        if token is None:
            token = settings.token or TokenStore(settings.tokens_file).admin_token()
        if not token.isascii():
            raise BadInput("has letters that no token of ours has", field="token")
        headers = {"Authorization": f"Bearer {token}"}
        try:
            self.http = httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=timeout_s)
        except httpx.InvalidURL as error:
            raise BadInput(f"{self.url} is no address: {error}", field="url") from error

    def close(self) -> None:
        """Closes the connections."""
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # -- jobs ------------------------------------------------------------------------------------

    def submit(
        self, spec: Document | dict[str, Any], *, tenant: str | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Submits a job-spec; a lost answer is asked for again without a second job."""
        value = spec.as_json() if isinstance(spec, Document) else spec
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        params = {} if tenant is None else {"tenant": tenant}
        return self._json("POST", "/jobs", json=value, headers=headers, params=params)

    def submit_many(
        self,
        specs: Sequence[Document | dict[str, Any]],
        *,
        tenant: str | None = None,
        key: str | None = None,
    ) -> list[dict[str, Any]]:
        """Submits several job-specs, all or none; a dependency may name another of them by its name."""
        values = [spec.as_json() if isinstance(spec, Document) else spec for spec in specs]
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        params = {} if tenant is None else {"tenant": tenant}
        answer = self._json("POST", "/jobs:bulk", json={"jobs": values}, headers=headers, params=params)
        jobs: list[dict[str, Any]] = answer["jobs"]
        return jobs

    def jobs(
        self, *, state: str | None = None, queue: str | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Jobs, newest first."""
        params = {"state": state, "queue": queue, "limit": limit}
        return self._list("/jobs", {name: value for name, value in params.items() if value is not None})

    def job(self, job: str) -> dict[str, Any]:
        """A job with its spec, attempts and faults."""
        return self._json("GET", f"/jobs/{_part(job)}")

    def explain(self, job: str) -> dict[str, Any]:
        """Why a job waits: `words`, `limit`, `needed`, `free`, `holders`, `start_by`."""
        return self._json("GET", f"/jobs/{_part(job)}/explain")

    def session(self, job: str) -> dict[str, Any]:
        """How the owner of a session comes in: `kind`, then `url` and `token`, or `host` and `port`."""
        return self._json("GET", f"/jobs/{_part(job)}/session")

    def what_if(self, job: str, **change: Any) -> dict[str, Any]:
        """Whether a waiting job would start with more `nodes`, other `caps`, `without` some jobs, ..."""
        return self._json("POST", f"/jobs/{_part(job)}/what-if", json=change)

    def cancel(self, job: str) -> dict[str, Any]:
        """Ends a job for good."""
        return self._json("POST", f"/jobs/{_part(job)}/cancel")

    def suspend(self, job: str) -> dict[str, Any]:
        """Takes a job off its nodes until it is released."""
        return self._json("POST", f"/jobs/{_part(job)}/suspend")

    def release(self, job: str) -> dict[str, Any]:
        """Lets a suspended job wait for a place again."""
        return self._json("POST", f"/jobs/{_part(job)}/release")

    def requeue(self, job: str) -> dict[str, Any]:
        """Takes a job off its nodes and lets it wait for others."""
        return self._json("POST", f"/jobs/{_part(job)}/requeue")

    def record(self, job: str) -> JobRecord:
        """What became of a job."""
        return JobRecord.parse(self._json("GET", f"/jobs/{_part(job)}/record"), where=f"record of {job}")

    def log(self, job: str) -> list[dict[str, Any]]:
        """What happened to a job, in order: submission, places, states, faults, decisions."""
        return self._list(f"/jobs/{_part(job)}/log", {})

    def reliability(self, job: str) -> dict[str, Any]:
        """What became of a job's time: goodput, ETTR, MTTR, MTBF, seconds by phase and by cause."""
        return self._json("GET", f"/jobs/{_part(job)}/reliability")

    def steps(self, job: str) -> list[dict[str, Any]]:
        """The steps that a job reported."""
        return self._list(f"/jobs/{_part(job)}/steps", {})

    def logs(self, job: str, *, rank: int = 0, attempt: int | None = None, lines: int = 1000) -> str:
        """The end of a rank's log."""
        params: dict[str, Any] = {"rank": rank, "lines": lines}
        if attempt is not None:
            params["attempt"] = attempt
        return self._request("GET", f"/jobs/{_part(job)}/logs", params=params).text

    def watch(self, job: str | None = None, *, patience_s: float = 60.0) -> Iterator[dict[str, Any]]:
        """Events as they happen, from the job's first; ends when the job is over.

        A lost connection (a restart of the platform) is taken up again where it was, for
        `patience_s` of silence.
        """
        path = "/watch" if job is None else f"/jobs/{_part(job)}/watch"
        last, since = "", time.monotonic()
        while True:
            try:
                for event in self._stream(path, last):
                    last, since = event["id"], time.monotonic()
                    if event["event"] == "end":
                        return
                    yield event
            except httpx.TransportError as error:
                if time.monotonic() - since > patience_s:
                    raise self._silent(error) from error
            except Unavailable:
                if time.monotonic() - since > patience_s:
                    raise
            time.sleep(0.3)

    def wait(self, job: str, timeout_s: float | None = None) -> dict[str, Any]:
        """The job once it is over; `Failed` when that takes longer than `timeout_s`."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                view = self.job(job)
            except Unavailable:
                if until is None or time.monotonic() > until:
                    raise
                view = {"state": "unknown"}
            if view["state"] in FINAL:
                return view
            if until is not None and time.monotonic() > until:
                raise Failed(f"job {job} is still {view['state']} after {timeout_s:g} s")
            time.sleep(0.25)

    # -- pool and queues ---------------------------------------------------------------------------

    def pool(self) -> dict[str, Any]:
        """The pool: totals and every node."""
        return self._json("GET", "/pool")

    def import_pool(self, report: Document | dict[str, Any]) -> dict[str, Any]:
        """Takes the cluster of a cluster-report in as the pool."""
        value = report.as_json() if isinstance(report, Document) or hasattr(report, "as_json") else report
        return self._json("POST", "/pool", json=value)

    def cordon(self, node: str, reason: str = "") -> dict[str, Any]:
        """Keeps new tasks off a node."""
        return self._json("POST", f"/nodes/{_part(node)}/cordon", json={"reason": reason})

    def uncordon(self, node: str) -> dict[str, Any]:
        """Lets tasks onto a node again."""
        return self._json("POST", f"/nodes/{_part(node)}/uncordon")

    def queues(self) -> list[dict[str, Any]]:
        """Queues with their limits and use."""
        return self._list("/queues", {})

    def put_queue(self, name: str, **limits: Any) -> dict[str, Any]:
        """Adds a queue or changes it: its `parent`, guarantees, caps, `weight`, user limits, `cells`."""
        return self._json("PUT", f"/queues/{_part(name)}", json=limits)

    def delete_queue(self, name: str) -> dict[str, Any]:
        """Takes a queue away that has no jobs and none below it."""
        return self._json("DELETE", f"/queues/{_part(name)}")

    def windows(self) -> list[dict[str, Any]]:
        """Reservations and maintenance that are not over."""
        return self._list("/windows", {})

    def put_window(self, name: str, **window: Any) -> dict[str, Any]:
        """Keeps nodes free: `kind`, `start`, `until`, `nodes` or `count`, and who is let in."""
        return self._json("PUT", f"/windows/{_part(name)}", json=window)

    def delete_window(self, name: str) -> dict[str, Any]:
        """Takes a reservation or maintenance away."""
        return self._json("DELETE", f"/windows/{_part(name)}")

    def replay(self) -> dict[str, Any]:
        """Runs the decisions since the last snapshot again: `same`, `cycles`, `differences`."""
        return self._json("GET", "/replay")

    def faults(self) -> list[dict[str, Any]]:
        """The newest faults."""
        return self._list("/faults", {})

    def usage(self, *, by: str = "tenant", since: str = "", until: str = "") -> dict[str, Any]:
        """Accelerator-hours by tenant, queue, user or model, and what became of the whole pool."""
        return self._json("GET", "/usage", params={"by": by, "since": since, "until": until})

    def usage_csv(self, *, by: str = "tenant", since: str = "", until: str = "") -> str:
        """The rows of `usage` as CSV."""
        return self._request("GET", "/usage.csv", params={"by": by, "since": since, "until": until}).text

    # -- the wire ----------------------------------------------------------------------------------

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        if "json" in options:
            options["content"] = _encoded(options.pop("json"))
            options["headers"] = {"Content-Type": "application/json", **options.get("headers", {})}
        try:
            response = self.http.request(method, path, **options)
        except httpx.TransportError as error:
            raise self._silent(error) from error
        if response.is_error:
            raise problem_of(response)
        return response

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        value: dict[str, Any] = self._value(self._request(method, path, **options))
        return value

    def _list(self, path: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        value: list[dict[str, Any]] = self._value(self._request("GET", path, params=params))
        return value

    def _value(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError as error:
            why = "something else listens there: its answer is not JSON"
            raise self._silent(why) from error

    def _silent(self, why: object) -> Problem:
        return Unavailable(
            f"no aistation answers at {self.url}", why=str(why), do="start it with `aistation serve`"
        )

    def _stream(self, path: str, last: str) -> Iterator[dict[str, Any]]:
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        timeout = httpx.Timeout(10.0, read=40.0)
        with self.http.stream("GET", path, headers=headers, timeout=timeout) as response:
            if response.is_error:
                response.read()
                raise problem_of(response)
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    data = json.loads(fields["data"])
                    yield {"id": fields.get("id", ""), "event": fields.get("event", "message"), **data}
                    fields = {}


def _part(name: str) -> str:
    """A name as one part of a path, whatever it holds."""
    return quote(name, safe="")


def _encoded(value: Any) -> bytes:
    """`value` as JSON, which has no NaN, dates, circles or lone surrogates."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"the request holds what JSON cannot carry: {error}") from error


def problem_of(response: httpx.Response) -> Problem:
    """The problem in an answer."""
    try:
        body = response.json()
    except ValueError:
        body = {}
    body = body if isinstance(body, dict) else {}
    kind = PROBLEMS.get(response.status_code, Failed)
    problem = kind(
        body.get("title") or f"the service answered {response.status_code}",
        why=body.get("detail", ""),
        do=body.get("try", ""),
        field=body.get("field"),
    )
    problem.status = response.status_code
    return problem
