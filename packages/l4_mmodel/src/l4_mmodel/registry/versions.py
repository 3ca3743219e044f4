"""Versions: registered whole or not at all, found by name, number, alias or digest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import Connection, Row, delete, func, select

from l4_mmodel._kit.problems import BadInput, Conflict, NotFound
from l4_mmodel.security.formats import inspect
from l4_mmodel.security.tensors import TensorFile
from l4_mmodel.store import tables
from l4_mmodel.store.database import Store

from . import queries
from .aliases import move_alias, set_alias
from .blobs import Blobs
from .manifests import MODEL_SCHEMA, ManifestFile, ModelManifest, Opened, open_manifest, read_model_manifest
from .names import Ref, check_alias, check_name, parse_ref
from .references import referenced, referrers

ADAPTER = "adapter"
Progress = Callable[[str, int, int], None]
"""Called with what is being done, and bytes done and in all."""


@dataclass(frozen=True)
class Version:
    """A registered version of a model.  `digest` is its manifest's."""

    id: int
    tenant: str
    name: str
    number: int
    digest: str
    type: str
    format: str
    bytes: int
    licence: str
    base_digest: str | None
    created_at: float
    created_by: str
    tags: dict[str, str]
    manifest: dict[str, Any] = field(repr=False)
    aliases: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """`NAME@NUMBER`."""
        return f"{self.name}@{self.number}"

    @property
    def architecture(self) -> str:
        """The architecture's name, from the manifest."""
        return str(self.manifest.get("architecture", ""))

    @property
    def parameters(self) -> int:
        """How many parameters it has."""
        return int(self.manifest.get("parameters", 0))

    @property
    def files(self) -> dict[str, str]:
        """Name → digest."""
        return {file["uri"]: file["sha256"] for file in self.manifest["files"]}

    def as_json(self) -> dict[str, Any]:
        """The version without its manifest."""
        row = {name: getattr(self, name) for name in PUBLIC}
        return {**row, "ref": self.ref, "aliases": list(self.aliases)}


PUBLIC = (
    "name", "number", "digest", "type", "format", "architecture", "parameters", "bytes", "licence",
    "base_digest", "tenant", "tags", "created_at", "created_by",
)  # fmt: skip


class Versions:
    """The registry's versions."""

    def __init__(self, store: Store, blobs: Blobs) -> None:
        self.store = store
        self.blobs = blobs

    def register(
        self,
        path: Path,
        *,
        tenant: str,
        by: str,
        name: str | None = None,
        alias: str | None = None,
        tags: dict[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Version:
        """Registers the model of a `model-manifest/v1`: every digest verified, every file looked into.

        The same manifest again gives the version that is there.  Errors leave nothing behind.
        """
        opened = open_manifest(path, MODEL_SCHEMA)
        return self.register_opened(
            opened,
            where=str(path),
            tenant=tenant,
            by=by,
            name=name,
            alias=alias,
            tags=tags,
            progress=progress,
        )

    def register_opened(
        self,
        opened: Opened,
        *,
        where: str,
        tenant: str,
        by: str,
        name: str | None = None,
        alias: str | None = None,
        tags: dict[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Version:
        """`register` for a manifest that is read already; its files lie in its folder."""
        if alias is not None:
            check_alias(alias)
        manifest = read_model_manifest(opened.value, where)
        name = check_name(name or manifest.name)
        known = self._by_digest(tenant, opened.digest)
        if known is None:
            self._check_base(manifest, tenant)
            with self.blobs.staging() as staging:
                weights = self._bring_in(opened.folder, manifest, tenant, staging, progress)
                known = self._record(
                    manifest, opened.value, opened.digest, weights,
                    tenant=tenant, by=by, name=name, alias=alias, tags=tags or {},
                )  # fmt: skip
        elif known.name != name:
            raise Conflict(f"this manifest is registered already as {known.ref}", do="use that name")
        if alias is not None and alias not in known.aliases:
            set_alias(self.store, known.id, known.ref, alias, tenant=tenant, by=by, reason="at registration")
            known = self.get(Ref(digest=known.digest), tenant)
        return known

    def _bring_in(
        self, folder: Path, manifest: ModelManifest, tenant: str, staging: Path, progress: Progress | None
    ) -> list[TensorFile]:
        """Hashes, copies and inspects every file, then moves all to their places."""
        total, done, weights, staged = sum(file.bytes for file in manifest.files), 0, [], []
        for number, file in enumerate(manifest.files):
            into = None if self.blobs.has(tenant, file.sha256) else staging / str(number)
            self.blobs.stage(folder, file.uri, into, tenant=tenant, expected=file.sha256, size=file.bytes)
            with self._stored(into, tenant, file) as stream:
                found = inspect(stream, file.bytes, file.uri)
            if found is not None:
                weights.append(found)
            if into is not None:
                staged.append((into, file.sha256))
            done += file.bytes
            if progress is not None:
                progress(file.uri, done, total)
        _check_complete(manifest, weights)
        for into, digest in staged:
            self.blobs.put(tenant, into, digest)
        return weights

    def _stored(self, staged: Path | None, tenant: str, file: ManifestFile) -> BinaryIO:
        """What will be stored, as it will be read: not the source, which may change under us."""
        if staged is None:
            return self.blobs.open(tenant, file.sha256, file.uri)
        return self.blobs.open_staged(staged, tenant, file.uri)

    def _check_base(self, manifest: ModelManifest, tenant: str) -> None:
        if manifest.type != ADAPTER:
            return
        if manifest.base is None:
            raise BadInput(
                "an adapter must pin its base model by digest", field="base",
                do="write base: {schema, digest} of the base's manifest",
            )  # fmt: skip
        if self._by_digest(tenant, manifest.base.digest) is None:
            raise BadInput(
                f"its base {manifest.base.digest} is not registered", field="base.digest",
                do="register the base model's manifest first",
            )  # fmt: skip

    def _record(
        self,
        manifest: ModelManifest,
        value: dict[str, Any],
        digest: str,
        weights: list[TensorFile],
        *,
        tenant: str,
        by: str,
        name: str,
        alias: str | None,
        tags: dict[str, str],
    ) -> Version:
        now = self.store.clock()
        with self.store.change() as connection:
            model_id, number = _next_number(connection, tenant, name, manifest.type, now)
            row = {
                "tenant": tenant, "model_id": model_id, "number": number, "digest": digest,
                "base_digest": manifest.base.digest if manifest.base else None,
                "format": weights[0].format, "bytes": sum(file.bytes for file in manifest.files),
                "licence": manifest.licence, "manifest": value, "tags": tags,
                "created_at": now, "created_by": by,
            }  # fmt: skip
            version_id = connection.execute(queries.ADD_VERSION, row).scalar_one()
            connection.execute(queries.ADD_FILES, _file_rows(version_id, manifest.files))
            self.store.audit(
                connection, tenant=tenant, by=by, action="register", target=f"{name}@{number}", digest=digest
            )
            if alias is not None:
                move_alias(
                    self.store, connection, model_id, name, alias, version_id, number,
                    tenant=tenant, by=by, reason="at registration",
                )  # fmt: skip
        row.pop("model_id")
        named = () if alias is None else (alias,)
        return Version(id=version_id, name=name, type=manifest.type, aliases=named, **row)  # type: ignore[arg-type]

    def get(self, ref: Ref | str, tenant: str) -> Version:
        """The version that a reference names; `NotFound` also for another tenant's."""
        ref = parse_ref(ref) if isinstance(ref, str) else ref
        query, key = _lookup(ref)
        with self.store.read() as connection:
            row = connection.execute(query, {"tenant": tenant, **key}).first()
        if row is None:
            raise NotFound(f"no version {ref}", do="see `mmodel models`")
        return _version(row)

    def by_commit(self, tenant: str, name: str, commit: str) -> Version:
        """The version of a model whose digest begins with these 40 hex digits."""
        key = {"tenant": tenant, "name": name, "beginning": f"sha256:{commit}"}
        with self.store.read() as connection:
            row = connection.execute(queries.BY_COMMIT, key).first()
        if row is None:
            raise NotFound(f"no version of {name} begins with {commit}", do="see `mmodel models`")
        return _version(row)

    def by_id(self, version_id: int) -> Version:
        """The version with an internal id, as other tables name it."""
        with self.store.read() as connection:
            row = connection.execute(queries.BY_ID, {"id": version_id}).first()
        if row is None:
            raise NotFound("no such version")
        return _version(row)

    def all(self, tenant: str | None, name: str | None = None, *, limit: int = 1000) -> list[Version]:
        """Versions, newest first; of one model, or of all that the tenant has."""
        query = queries.VERSION.order_by(tables.versions.c.id.desc()).limit(limit)
        if tenant is not None:
            query = query.where(tables.versions.c.tenant == tenant)
        if name is not None:
            query = query.where(tables.models.c.name == name)
        with self.store.read() as connection:
            return [_version(row) for row in connection.execute(query)]

    def models(self, tenant: str | None) -> list[dict[str, Any]]:
        """One row a model: its newest version's number, how many there are, aliases."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for version in self.all(tenant, limit=100_000):
            row = rows.setdefault(
                (version.tenant, version.name),
                {
                    "name": version.name, "tenant": version.tenant, "type": version.type,
                    "newest": version.number, "versions": 0, "bytes": 0, "aliases": {},
                },
            )  # fmt: skip
            row["versions"] += 1
            row["bytes"] += version.bytes
            row["aliases"].update(dict.fromkeys(version.aliases, version.number))
        return list(rows.values())

    def delete(self, version: Version, *, by: str) -> None:
        """Removes a version that nothing refers to; its files go with the next collection."""
        with self.store.change() as connection:
            for what, query in referrers(version.tenant, version.id, version.digest):
                found = connection.execute(query.limit(1)).scalar()
                if found is not None:
                    raise Conflict(
                        f"{version.ref} is in use by {what} {found}", do=f"remove that {what} first"
                    )
            connection.execute(delete(tables.files).where(tables.files.c.version_id == version.id))
            connection.execute(
                delete(tables.deployments).where(tables.deployments.c.version_id == version.id)
            )
            connection.execute(
                delete(tables.evaluations).where(tables.evaluations.c.version_id == version.id)
            )
            connection.execute(delete(tables.versions).where(tables.versions.c.id == version.id))
            self.store.audit(
                connection,
                tenant=version.tenant,
                by=by,
                action="delete",
                target=version.ref,
                digest=version.digest,
            )
        self.blobs.drop_view(version.tenant, version.digest)

    def collect(self, *, by: str, dry_run: bool = False) -> list[tuple[str, str, int]]:
        """Removes content that no version and no data set names: (tenant, digest, bytes) of each."""
        with self.blobs.alone():
            with self.store.read() as connection:
                wanted = referenced(connection)
            gone = self.blobs.collect(wanted, dry_run=dry_run)
            if gone and not dry_run:
                with self.store.change() as connection:
                    self.store.audit(
                        connection, tenant="system", by=by, action="collect", target=f"{len(gone)} files",
                        bytes=sum(size for _, _, size in gone),
                    )  # fmt: skip
        return gone

    def _by_digest(self, tenant: str, digest: str) -> Version | None:
        try:
            return self.get(Ref(digest=digest), tenant)
        except NotFound:
            return None


def _check_complete(manifest: ModelManifest, weights: list[TensorFile]) -> None:
    """A model needs weights, of one format, and what its type needs beside them."""
    formats = sorted({found.format for found in weights})
    if not formats:
        raise BadInput("names no weights", field="files", do="add a safetensors or GGUF file")
    if len(formats) > 1:
        raise BadInput("mixes safetensors and GGUF", field="files", do="register them as two models")
    names = {file.uri for file in manifest.files}
    needed = {"adapter_config.json"} if manifest.type == ADAPTER else {"config.json"}
    missing = sorted(needed - names) if formats == ["safetensors"] else []
    if missing:
        raise BadInput(f"{missing[0]} is missing", field="files", do="add it to the manifest")


def _file_rows(version_id: int, files: list[ManifestFile]) -> list[dict[str, Any]]:
    return [
        {"version_id": version_id, "path": file.uri, "sha256": file.sha256, "bytes": file.bytes}
        for file in files
    ]


def _next_number(connection: Connection, tenant: str, name: str, type_: str, now: float) -> tuple[int, int]:
    """The model's id and its next number: numbers are never given twice, also after a delete."""
    row = connection.execute(queries.COUNT_UP, {"of_tenant": tenant, "of_name": name}).first()
    if row is None:
        values = {"tenant": tenant, "name": name, "type": type_, "created_at": now, "last_number": 1}
        return int(connection.execute(queries.ADD_MODEL, values).scalar_one()), 1
    if row.type != type_:  # the error undoes the counting
        raise BadInput(
            f"{name} is a model of type {row.type}, not {type_}", field="name", do="use another name"
        )
    return int(row.id), int(row.last_number)


def _lookup(ref: Ref) -> tuple[Any, dict[str, Any]]:
    """The statement that finds a reference, and its parameters beside the tenant."""
    if ref.digest is not None:
        return queries.BY_DIGEST, {"digest": ref.digest}
    if ref.number is not None:
        return queries.BY_NUMBER, {"name": ref.name, "number": ref.number}
    if ref.alias is not None:
        return queries.BY_ALIAS, {"name": ref.name, "alias": ref.alias}
    return queries.NEWEST, {"name": ref.name}


def _version(row: Row[Any]) -> Version:
    values = dict(row._mapping)
    values.pop("model_id")
    values["aliases"] = tuple(sorted(values["aliases"].split(","))) if values["aliases"] else ()
    return Version(**values)


def count(store: Store) -> int:
    """How many versions there are."""
    with store.read() as connection:
        return int(connection.execute(select(func.count()).select_from(tables.versions)).scalar_one())
