"""What can be done with models, in the words of the command line, REST and Python."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from l4_mmodel import __version__

from ._kit.documents import Producer, Reference
from ._kit.problems import BadInput, NotFound
from .documents import Deployment, EvalReport, PairedComparison
from .settings import Settings

if TYPE_CHECKING:
    from .evaluation.rules import Verdict
    from .evaluation.session import Progress as EvaluationProgress
    from .registry.lineage import Lineage
    from .registry.versions import Progress, Version
    from .security.keyring import KeyRing
    from .serving.deployments import DeploymentRow
    from .serving.server import Server
    from .serving.supervisor import Plan

PRODUCER = Producer(name="l4-mmodel", version=__version__)


def _ring(settings: Settings) -> KeyRing | None:
    if not settings.encrypt:
        return None
    from .security.keyring import KeyRing

    return KeyRing(settings.master_key_file or settings.state_dir / "master.key", settings.state_dir / "keys")


@dataclass(frozen=True)
class Promotion:
    """What a promotion came to: each condition with what was measured, and whether the alias moved."""

    version: str
    alias: str
    promoted: bool
    verdicts: list[Verdict]
    report: str
    baseline: str | None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "verdicts": [vars(verdict) for verdict in self.verdicts]}


class Mmodel:
    """The registry, the evaluator and the deployments of one tenant."""

    def __init__(
        self, settings: Settings | None = None, *, tenant: str | None = None, by: str = "local"
    ) -> None:
        from .evaluation.reports import Reports
        from .registry.blobs import Blobs
        from .registry.datasets import Datasets
        from .registry.signatures import Signatures
        from .registry.versions import Versions
        from .security.keys import Keys
        from .serving.deployments import Deployments
        from .store.database import Store

        self.settings = settings or Settings.load()
        self.tenant = tenant or self.settings.tenant
        self.by = by
        self.settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.store = Store(self.settings.database)
        self.blobs = Blobs(
            self.settings.state_dir, memory=self.settings.memory_dir, ring=_ring(self.settings)
        )
        self.registry = Versions(self.store, self.blobs)
        self.signatures = Signatures(self.store, self.blobs)
        self.datasets = Datasets(self.store, self.blobs)
        self.deployed = Deployments(self.store)
        self.reported = Reports(self.store)
        self.keys = Keys(self.store, self.tenant, by)

    def of(self, tenant: str, by: str) -> Mmodel:
        """The same, for another tenant and caller."""
        from .security.keys import Keys

        other = copy.copy(self)
        other.tenant, other.by = tenant, by
        other.keys = Keys(self.store, tenant, by)
        return other

    def close(self) -> None:
        """Closes the database and lets go of what was opened into memory."""
        self.blobs.plain.close()
        self.store.close()

    # Registry

    def register(
        self,
        path: Path | str,
        *,
        name: str | None = None,
        alias: str | None = None,
        tags: dict[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Version:
        """Registers a `model-manifest/v1`: digests verified, only safetensors and GGUF accepted."""
        return self.registry.register(
            Path(path), tenant=self.tenant, by=self.by, name=name, alias=alias, tags=tags, progress=progress
        )

    def import_model(
        self,
        source: str,
        *,
        name: str | None = None,
        alias: str | None = None,
        type_: str | None = None,
        licence: str | None = None,
        base: str | None = None,
        tags: dict[str, str] | None = None,
        progress: Progress | None = None,
    ) -> tuple[Version, dict[str, str]]:
        """Registers a model without a manifest: a folder, `hf://OWNER/NAME@REV`, `s3://…` (by fsspec).

        A download that breaks off goes on at the next try.  Returns the version, and each file that
        was left out with the reason: only what holds no code is stored.
        """
        from .registry.importing.bring import bring, forget

        pinned = None
        if base is not None:
            pinned = {"schema": "ogai.model-manifest/v1", "digest": self.version(base).digest}
        brought = bring(
            source, self.settings.state_dir / "imports" / self.tenant,
            producer=PRODUCER.model_dump(), name=name, type_=type_, licence=licence, base=pinned,
            progress=progress,
        )  # fmt: skip
        version = self.registry.register_opened(
            brought.opened, where=source, tenant=self.tenant, by=self.by, name=name, alias=alias,
            tags={**(tags or {}), "source": brought.source}, progress=progress,
        )  # fmt: skip
        forget(brought)
        return version, brought.left_out

    def version(self, ref: str | Version) -> Version:
        """The version that `NAME`, `NAME@3`, `NAME@alias` or a digest names."""
        return self.registry.get(ref, self.tenant) if isinstance(ref, str) else ref

    def verify(self, ref: str | Version) -> Version:
        """Re-reads a version's files, and its base's; `Failed` names one that was changed."""
        version = self.version(ref)
        self.blobs.verify(self.tenant, version.files)
        if version.type == "adapter" and version.base_digest:
            self.verify(self.registry.get(version.base_digest, self.tenant))
        return version

    def seal(self) -> int:
        """Encrypts what was stored before `encrypt` was set; returns how many files that were."""
        from .registry.references import referenced

        with self.store.read() as connection:
            wanted = referenced(connection)
        sealed = sum(self.blobs.seal(tenant, digest) > 0 for tenant, digest in sorted(wanted))
        self.blobs.drop_views()
        return sealed

    def let_go(self) -> None:
        """Closes what was opened into memory for deployments that do not run any more."""
        from .serving.planning import digests_in_use

        self.blobs.plain.keep(digests_in_use(self))

    def note_read(self, version: Version, path: str) -> None:
        """Writes down that a file of a version was handed out."""
        with self.store.change() as connection:
            self.store.audit(
                connection, tenant=self.tenant, by=self.by, action="read", target=version.ref, file=path
            )

    def sign(self, ref: str | Version, key: Path, *, password: str | None = None) -> str:
        """Signs a version with a private key that stays where it is; returns the signer's fingerprint."""
        return self.signatures.sign(self.version(ref), key, by=self.by, password=password)

    def alias(self, ref: str | Version, alias: str, *, reason: str = "") -> Version:
        """Points an alias to a version."""
        from .registry.aliases import set_alias

        version = self.version(ref)
        set_alias(self.store, version.id, version.ref, alias, tenant=self.tenant, by=self.by, reason=reason)
        return self.version(version.ref)

    def alias_history(self, ref: str | Version) -> list[dict[str, Any]]:
        """Every move of the model's aliases, newest first."""
        from .registry.aliases import alias_history

        version = self.version(ref)
        return alias_history(self.store, version.id, version.ref)

    def lineage(self, ref: str | Version) -> Lineage:
        """What a version was made from, and what was made of it."""
        from .registry.lineage import lineage

        return lineage(self.store, self.version(ref))

    def delete(self, ref: str | Version) -> None:
        """Removes a version that nothing refers to."""
        self.registry.delete(self.version(ref), by=self.by)

    def collect(self, *, dry_run: bool = False) -> list[tuple[str, str, int]]:
        """Removes content that nothing refers to: (tenant, digest, bytes)."""
        return self.registry.collect(by=self.by, dry_run=dry_run)

    # Evaluation

    def evaluate(
        self,
        suite: Path | str,
        models: Sequence[str | Version],
        *,
        out: Path | None = None,
        fresh: bool = False,
        progress: EvaluationProgress | None = None,
    ) -> list[EvalReport]:
        """Measures models on a suite; those after the first are compared with the first.

        Results are kept as they come: after a kill the same call goes on.  `fresh` measures anew.
        Writes `MODEL.eval-report.json` into `out`.
        """
        from .evaluation.session import Session
        from .evaluation.suite import load_suite

        if not models:
            raise BadInput("name at least one model", field="model")
        loaded = load_suite(Path(suite), self.dataset_file)
        versions = [self.version(ref) for ref in models]
        subjects = [(version, self.plan(version, version.ref)) for version in versions]
        session = Session(
            self.settings.state_dir / "evaluations", self.settings.run_dir, PRODUCER,
            self.settings.start_timeout_s, fresh,
        )  # fmt: skip
        reports = asyncio.run(session.evaluate(loaded, subjects, progress or (lambda *_: None)))
        for version, report in zip(versions, reports, strict=True):
            self.reported.add(version, report, by=self.by)
            if out is not None:
                report.write(out / f"{version.name}-{version.number}.eval-report.json")
        return reports

    def dataset_file(self, text: str) -> Path:
        """The file that `dataset:NAME[@N]/FILE` names, checked against its digest."""
        ref, _, name = text.removeprefix("dataset:").partition("/")
        dataset = self.datasets.get(ref, self.tenant)
        name = name or next(iter(dataset.files))
        if name not in dataset.files:
            raise NotFound(f"{dataset.ref} has no file {name!r}")
        if self.blobs.ring is None:
            self.blobs.verify(self.tenant, {name: dataset.files[name]})
        return self.blobs.view(self.tenant, dataset.digest, dataset.files) / name

    def compare(self, candidate: EvalReport, baseline: EvalReport) -> list[PairedComparison]:
        """Difference, interval and p-value per task, over the same items."""
        from .evaluation.comparing import compare

        return compare(candidate, baseline)

    def reports(self, ref: str | Version | None = None) -> list[tuple[str, EvalReport]]:
        """(digest, report), the newest first."""
        return self.reported.all(self.tenant, None if ref is None else self.version(ref))

    def promote(
        self,
        ref: str | Version,
        rule: str,
        *,
        baseline: str | Version | None = None,
        alias: str = "production",
    ) -> Promotion:
        """Points `alias` to the version if its newest report fulfils `rule`.

        The baseline is what is given, else the alias's present version, else the model that the
        report was compared with.
        """
        from .evaluation.comparing import overall
        from .evaluation.rules import judge_rule, needs_baseline, parse_rule

        conditions = parse_rule(rule)
        version = self.version(ref)
        found = self.reports(version)
        if not found:
            raise NotFound(f"{version.ref} has no report", do="run `mmodel eval` first")
        digest, report = found[0]
        other = self._baseline(version, report, baseline, alias)
        if other is None and needs_baseline(conditions):
            raise NotFound("there is no baseline", do="name one with --baseline, evaluated on the same suite")
        comparison = overall(report, other) if other is not None else None
        verdicts = judge_rule(conditions, report, other, comparison)
        promoted = all(verdict.holds for verdict in verdicts)
        if promoted:
            self.alias(version, alias, reason=f"{rule} (report {digest})")
        return Promotion(version.ref, alias, promoted, verdicts, digest, other.model_name if other else None)

    def _baseline(
        self, version: Version, report: EvalReport, wanted: str | Version | None, alias: str
    ) -> EvalReport | None:
        def newest(other: Version) -> EvalReport | None:
            same = [row for _, row in self.reports(other) if row.suite_digest == report.suite_digest]
            return same[0] if same else None

        if wanted is not None:
            return newest(self.version(wanted))
        try:
            current = self.version(f"{version.name}@{alias}")
        except NotFound:
            current = version
        if current.id != version.id:
            return newest(current)
        if report.comparisons:
            return self.reported.get(report.comparisons[0].baseline.digest, self.tenant)
        return None

    # Serving

    def deploy(
        self,
        ref: str | Version,
        *,
        name: str | None = None,
        runtime: str | None = None,
        reason: str = "",
        evaluation: Reference | None = None,
    ) -> Deployment:
        """Asks for a version to be served under `name` (the model's, unless given).

        A running `mmodel serve` starts it; without one it starts with the next.
        """
        from .serving.deployments import runtime_for

        version = self.version(ref)
        row = self.deployed.request(
            version, name=name or version.name, runtime=runtime_for(version, runtime), by=self.by,
            producer=PRODUCER, url=f"http://{self.settings.host}:{self.settings.port}/v1", reason=reason,
            evaluation=evaluation,
        )  # fmt: skip
        return Deployment.parse(row.document)

    def deploy_url(
        self,
        ref: str | Version,
        url: str,
        *,
        model: str,
        name: str | None = None,
        key_file: Path | None = None,
    ) -> Deployment:
        """Serves a version through an OpenAI-compatible address that has it as `model`."""
        version = self.version(ref)
        upstream = {"url": url, "model": model, "key_file": str(key_file.resolve()) if key_file else None}
        row = self.deployed.request(
            version, name=name or version.name, runtime="openai", by=self.by, producer=PRODUCER,
            url=f"http://{self.settings.host}:{self.settings.port}/v1", upstream=upstream,
        )  # fmt: skip
        return Deployment.parse(row.document)

    def deployment(self, name: str) -> Deployment:
        """The `deployment/v1` of a name, as it is now."""
        return Deployment.parse(self.deployed.get(self.tenant, name).document)

    def stop(self, name: str) -> None:
        """Ends a deployment after the requests under way."""
        self.deployed.happen(self.deployed.get(self.tenant, name).id, "stop", by=self.by)

    def serve(
        self, *, port: int | None = None, wait_for: Sequence[str] = (), timeout_s: float | None = None
    ) -> Server:
        """Starts `mmodel serve` as a child; use as a context manager.  Port 0 takes a free one.

        Returns once the deployments named in `wait_for` are ready.
        """
        from .serving.server import Server

        return Server.start(
            self, port=port, wait_for=wait_for, timeout_s=timeout_s or self.settings.start_timeout_s
        )

    def plan(self, version: Version, name: str) -> Plan:
        """How a version runs: files verified, put under their names, its base beside an adapter."""
        from .serving.planning import plan

        return plan(self, version, name)

    def plan_row(self, row: DeploymentRow) -> Plan:
        """How a deployment runs."""
        from .serving.planning import plan_row

        return plan_row(self, row)
