"""Stored reports: by version and suite, and the leader board over them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, select

from l4_mmodel._kit.problems import NotFound
from l4_mmodel.documents import EvalReport
from l4_mmodel.registry.versions import Version
from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

from .comparing import accuracy
from .statistics import wilson


class Reports:
    """The store of `eval-report/v1` documents."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def add(self, version: Version, report: EvalReport, *, by: str) -> None:
        """Keeps a report; one that is there already stays."""
        table = tables.evaluations
        digest = report.digest()
        with self.store.change() as connection:
            known = select(table.c.id).where(table.c.tenant == version.tenant, table.c.digest == digest)
            if connection.execute(known).first() is not None:
                return
            row = {
                "tenant": version.tenant, "version_id": version.id, "suite": report.suite,
                "suite_digest": report.suite_digest, "digest": digest, "report": report.as_json(),
                "created_at": self.store.clock(),
            }  # fmt: skip
            connection.execute(insert(table), row)
            self.store.audit(
                connection, tenant=version.tenant, by=by, action="evaluate", target=version.ref,
                suite=report.suite, digest=digest,
            )  # fmt: skip

    def get(self, digest: str, tenant: str | None) -> EvalReport:
        """A report by its digest; `NotFound` also for another tenant's."""
        table = tables.evaluations
        query = select(table.c.report).where(table.c.digest == digest)
        if tenant is not None:
            query = query.where(table.c.tenant == tenant)
        with self.store.read() as connection:
            value = connection.execute(query).scalar()
        if value is None:
            raise NotFound(f"no report {digest}", do="see `mmodel reports`")
        return EvalReport.parse(value)

    def all(self, tenant: str | None, version: Version | None = None) -> list[tuple[str, EvalReport]]:
        """(digest, report), the newest first."""
        table = tables.evaluations
        query = select(table.c.digest, table.c.report).order_by(table.c.id.desc())
        if tenant is not None:
            query = query.where(table.c.tenant == tenant)
        if version is not None:
            query = query.where(table.c.version_id == version.id)
        with self.store.read() as connection:
            return [(row.digest, EvalReport.parse(row.report)) for row in connection.execute(query)]


def leader_board(reports: list[tuple[str, EvalReport]]) -> list[dict[str, Any]]:
    """One row a suite and model (its newest report), best accuracy first within a suite."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for digest, report in reports:
        key = (report.suite_digest, report.model.digest)
        if key in rows:
            continue
        right, n = sum(item.correct for item in report.items), len(report.items)
        interval = wilson(right, n)
        request = next((row for row in report.latency if row.name == "request"), None)
        first = next((row for row in report.latency if row.name == "time_to_first_token"), None)
        rows[key] = {
            "suite": f"{report.suite} {report.suite_version}", "suite_digest": report.suite_digest,
            "model": report.model_name, "accuracy": accuracy(report), "low": interval.low,
            "high": interval.high, "n": n, "p50_ms": request.p50_ms if request else None,
            "p90_ms": request.p90_ms if request else None, "first_p50_ms": first.p50_ms if first else None,
            "equal_answers": report.stability.equal_answers if report.stability else None,
            "report": digest, "runtime": report.runtime,
        }  # fmt: skip
    return sorted(rows.values(), key=lambda row: (row["suite"], row["suite_digest"], -row["accuracy"]))
