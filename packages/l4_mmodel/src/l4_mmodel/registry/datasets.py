"""Data sets as versions: the files of a `dataset-manifest/v1`, each digest verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Row, func, insert, select

from l4_mmodel._kit.problems import NotFound
from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

from .blobs import Blobs
from .manifests import DATASET_SCHEMA, ManifestFile, open_manifest, read_dataset_manifest
from .names import Ref, check_name, parse_ref


@dataclass(frozen=True)
class Dataset:
    """A registered version of a data set.  `digest` is its manifest's."""

    id: int
    tenant: str
    name: str
    number: int
    digest: str
    rows: int
    bytes: int
    created_at: float
    created_by: str
    manifest: dict[str, Any] = field(repr=False)

    @property
    def ref(self) -> str:
        """`NAME@NUMBER`."""
        return f"{self.name}@{self.number}"

    @property
    def files(self) -> dict[str, str]:
        """Name → digest."""
        return {shard["uri"]: shard["sha256"] for shard in self.manifest["shards"]}

    def as_json(self) -> dict[str, Any]:
        """The version without its manifest."""
        return {
            **{name: value for name, value in vars(self).items() if name not in ("id", "manifest")},
            "ref": self.ref,
        }


class Datasets:
    """The registry's data sets."""

    def __init__(self, store: Store, blobs: Blobs) -> None:
        self.store = store
        self.blobs = blobs

    def register(self, path: Path, *, tenant: str, by: str, name: str | None = None) -> Dataset:
        """Registers a `dataset-manifest/v1` whole; the same manifest again gives what is there."""
        opened = open_manifest(path, DATASET_SCHEMA)
        manifest = read_dataset_manifest(opened.value, str(path))
        name = check_name(name or manifest.name)
        try:
            return self.get(Ref(digest=opened.digest), tenant)
        except NotFound:
            pass
        with self.blobs.staging() as staging:
            staged = []
            for number, shard in enumerate(manifest.shards):
                into = None if self.blobs.has(tenant, shard.sha256) else staging / str(number)
                self.blobs.stage(
                    opened.folder, shard.uri, into, tenant=tenant, expected=shard.sha256, size=shard.bytes
                )
                if into is not None:
                    staged.append((into, shard.sha256))
            for into, digest in staged:
                self.blobs.put(tenant, into, digest)
            self._record(
                opened.value, opened.digest, manifest.rows, manifest.shards, tenant=tenant, by=by, name=name
            )
        return self.get(Ref(digest=opened.digest), tenant)

    def _record(
        self,
        value: dict[str, Any],
        digest: str,
        rows: int,
        shards: list[ManifestFile],
        *,
        tenant: str,
        by: str,
        name: str,
    ) -> None:
        table = tables.datasets
        with self.store.change() as connection:
            newest = select(func.max(table.c.number)).where(table.c.tenant == tenant, table.c.name == name)
            number = (connection.execute(newest).scalar() or 0) + 1
            row = {
                "tenant": tenant, "name": name, "number": number, "digest": digest, "rows": rows,
                "bytes": sum(shard.bytes for shard in shards), "manifest": value,
                "created_at": self.store.clock(), "created_by": by,
            }  # fmt: skip
            dataset_id = connection.execute(insert(table), row).inserted_primary_key[0]  # type: ignore[index]
            files = [
                {"dataset_id": dataset_id, "path": shard.uri, "sha256": shard.sha256, "bytes": shard.bytes}
                for shard in shards
            ]
            connection.execute(insert(tables.dataset_files), files)
            self.store.audit(
                connection,
                tenant=tenant,
                by=by,
                action="register-dataset",
                target=f"{name}@{number}",
                digest=digest,
            )

    def get(self, ref: Ref | str, tenant: str) -> Dataset:
        """The data set that a reference names; `NotFound` also for another tenant's."""
        ref = parse_ref(ref) if isinstance(ref, str) else ref
        table = tables.datasets
        query = select(table).where(table.c.tenant == tenant).order_by(table.c.number.desc()).limit(1)
        query = query.where(table.c.digest == ref.digest if ref.digest else table.c.name == ref.name)
        if ref.number is not None:
            query = query.where(table.c.number == ref.number)
        with self.store.read() as connection:
            row = connection.execute(query).first()
        if row is None or ref.alias is not None:
            raise NotFound(f"no data set {ref}", do="see `mmodel datasets`")
        return _dataset(row)

    def all(self, tenant: str | None) -> list[Dataset]:
        """Data sets, newest first."""
        query = select(tables.datasets).order_by(tables.datasets.c.id.desc())
        if tenant is not None:
            query = query.where(tables.datasets.c.tenant == tenant)
        with self.store.read() as connection:
            return [_dataset(row) for row in connection.execute(query)]


def _dataset(row: Row[Any]) -> Dataset:
    return Dataset(**row._mapping)
