"""Evaluates versions: one runtime for those that share a base, a report for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from l4_mmodel._kit.documents import Producer, Reference
from l4_mmodel._kit.problems import Failed
from l4_mmodel.documents import EvalReport
from l4_mmodel.registry.manifests import MODEL_SCHEMA
from l4_mmodel.registry.versions import Version
from l4_mmodel.serving.runtimes.process import RuntimeProcess
from l4_mmodel.serving.supervisor import Plan

from .comparing import compare
from .results import ResultLog
from .runner import Evaluation, Subject
from .suite import LoadedSuite, key_of
from .target import Target

Progress = Callable[[str, str, int, int], None]
"""Called with the model, what is being done, how much is done and in all."""

RESTARTS = 2
"""How often a runtime that was lost in the middle is started again."""


@dataclass(frozen=True)
class Session:
    """Where results and logs go, and how long a runtime may take to start."""

    folder: Path
    run_dir: Path
    producer: Producer
    start_timeout_s: float
    fresh: bool = False

    async def evaluate(
        self, loaded: LoadedSuite, subjects: Sequence[tuple[Version, Plan]], progress: Progress
    ) -> list[EvalReport]:
        """A report for each version; those after the first are compared with the first."""
        found: dict[str, EvalReport] = {}
        for group in dict.fromkeys(plan.group for _, plan in subjects):
            members = [(version, plan) for version, plan in subjects if plan.group == group]
            found |= await self._group(loaded, members, progress)
        reports = [found[version.digest] for version, _ in subjects]
        return [reports[0], *(_compared(report, reports[0]) for report in reports[1:])]

    async def _group(
        self, loaded: LoadedSuite, members: Sequence[tuple[Version, Plan]], progress: Progress
    ) -> dict[str, EvalReport]:
        process = await self._start(members)
        reports = {}
        try:
            for version, plan in members:
                for attempt in range(RESTARTS + 1):
                    try:
                        reports[version.digest] = await self._one(loaded, version, plan, process, progress)
                        break
                    except* Failed as failures:
                        if attempt == RESTARTS or not await process.ended():
                            raise failures.exceptions[0] from None
                        await process.stop(0)
                        process = await self._start(members)
        finally:
            await process.stop()
        return reports

    async def _start(self, members: Sequence[tuple[Version, Plan]]) -> RuntimeProcess:
        spec = members[0][1].spec
        assert spec is not None
        process = RuntimeProcess(spec, self.run_dir)
        await process.start(self.start_timeout_s)
        for _, plan in members:
            if plan.adapter_folder is not None:
                await process.load_adapter(plan.adapter, plan.adapter_folder)
        return process

    async def _one(
        self, loaded: LoadedSuite, version: Version, plan: Plan, process: RuntimeProcess, progress: Progress
    ) -> EvalReport:
        key = key_of(version.digest, loaded.digest, process.description, str(loaded.suite.seed))
        log = ResultLog(self.folder / version.tenant / f"{key}.jsonl")
        if self.fresh:
            log.clear()
        try:
            run = Evaluation(
                loaded, Target(process, plan.adapter), log,
                lambda what, done, total: progress(version.ref, what, done, total),
            )  # fmt: skip
            await run.run()
            subject = Subject(Reference(schema_=MODEL_SCHEMA, digest=version.digest), version.ref)
            return run.report(subject, self.producer)
        finally:
            log.close()


def _compared(report: EvalReport, baseline: EvalReport) -> EvalReport:
    return report.model_copy(update={"comparisons": compare(report, baseline)})
