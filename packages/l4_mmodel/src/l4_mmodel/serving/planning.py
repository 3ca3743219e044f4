"""How versions and deployments run: which files, which runtime, and which of them share a process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from l4_mmodel.registry.signatures import trusted_in

from .deployments import RUNNING, DeploymentRow
from .runtimes.process import RuntimeSpec
from .supervisor import Plan, group_name

if TYPE_CHECKING:
    from l4_mmodel.registry.versions import Version
    from l4_mmodel.service import Mmodel


def plan(mmodel: Mmodel, version: Version, name: str) -> Plan:
    """How a version runs: files verified, put under their names, its base beside an adapter."""
    if mmodel.settings.trusted_keys_dir is not None:
        mmodel.signatures.check(version, trusted_in(mmodel.settings.trusted_keys_dir))
    folder = mmodel.blobs.checked_view(version.tenant, version.digest, version.files)
    if version.type != "adapter":
        group = group_name(version.tenant, version.digest)
        return Plan(group, _spec(mmodel, version, folder, name), None)
    base = mmodel.registry.get(str(version.base_digest), version.tenant)
    under = plan(mmodel, base, base.ref)
    return Plan(under.group, under.spec, None, version.digest[7:23], folder)


def plan_row(mmodel: Mmodel, row: DeploymentRow) -> Plan:
    """How a deployment runs."""
    if row.upstream is not None:
        return Plan(group_name(row.tenant, "url", row.name), None, row.upstream)
    assert row.version_id is not None
    return plan(mmodel, mmodel.registry.by_id(row.version_id), row.name)


def digests_in_use(mmodel: Mmodel) -> set[str]:
    """The versions, and their bases, of all deployments that run or are to run."""
    ids = {row.version_id for row in mmodel.deployed.all(None) if row.state in RUNNING}
    versions = [mmodel.registry.by_id(number) for number in ids if number is not None]
    return {digest for one in versions for digest in (one.digest, one.base_digest) if digest is not None}


def _spec(mmodel: Mmodel, version: Version, folder: Path, name: str) -> RuntimeSpec:
    settings = mmodel.settings
    model = folder
    if version.format == "gguf":  # one file is loaded, companions are left alone
        model = folder / next(file for file in version.files if file.lower().endswith(".gguf"))
    return RuntimeSpec(
        version.format, model, name,
        threads=settings.threads, dtype=settings.dtype, context=settings.context_limit,
    )  # fmt: skip
