"""Commands of the registry: register, models, verify, lineage, alias, delete, gc, audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from l4_mmodel._kit import command_line as line
from l4_mmodel._kit.problems import BadInput, Failed

from .common import Json, Progress, Tenant, app, open_layer

COLUMNS = ("ref", "type", "format", "bytes", "aliases", "digest")


@app.command()
def register(
    manifest: Annotated[Path, typer.Argument(help="a model-manifest/v1, or the folder with it")],
    name: Annotated[str | None, typer.Option(help="name in the registry (the manifest's)")] = None,
    alias: Annotated[str | None, typer.Option(help="alias to point to it")] = None,
    convert_to: Annotated[
        Path | None,
        typer.Option(help="de-quantise a GGUF file into this folder first (needs l4-mmodel[ylink])"),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Register a model: every digest verified, only safetensors and GGUF accepted."""
    if convert_to is not None:
        from l4_mmodel.adapters.l3_ylink import YlinkModels

        manifest = YlinkModels().fetch(manifest, convert_to, name=name)
    with Progress(as_json) as advance:
        version = open_layer(tenant).register(
            manifest,
            name=name,
            alias=alias,
            tags=_tags(tag),
            progress=advance,
        )
    line.show([version.as_json()], COLUMNS, as_json=as_json)


@app.command("import")
def import_model(  # noqa: PLR0917 (each is an option)
    source: Annotated[str, typer.Argument(help="a folder, hf://OWNER/NAME[@REVISION], or s3://…, https://…")],
    name: Annotated[str | None, typer.Option(help="name in the registry (the source's)")] = None,
    alias: Annotated[str | None, typer.Option(help="alias to point to it")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", help="causal-lm, adapter, embedding, reranker, reward (found out)")
    ] = None,
    licence: Annotated[str | None, typer.Option(help="its licence (the card's)")] = None,
    base: Annotated[str | None, typer.Option(help="an adapter's base: NAME@N")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Import a model that has no manifest; a download that broke off goes on."""
    with Progress(as_json) as advance:
        version, left_out = open_layer(tenant).import_model(
            source, name=name, alias=alias, type_=kind, licence=licence, base=base, tags=_tags(tag),
            progress=advance,
        )  # fmt: skip
    for path, why in left_out.items():
        line.err.print(f"left out {path}: {why}")
    line.show([{**version.as_json(), "left_out": left_out}], COLUMNS, as_json=as_json)


@app.command()
def dataset(
    manifest: Annotated[Path, typer.Argument(help="a dataset-manifest/v1, or the folder with it")],
    name: Annotated[str | None, typer.Option(help="name in the registry (the manifest's)")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Register a data set: every digest verified."""
    mmodel = open_layer(tenant)
    found = mmodel.datasets.register(manifest, tenant=mmodel.tenant, by=mmodel.by, name=name)
    line.show([found.as_json()], ("ref", "rows", "bytes", "digest"), as_json=as_json)


@app.command()
def datasets(tenant: Tenant = None, as_json: Json = False) -> None:
    """List data sets."""
    mmodel = open_layer(tenant)
    rows = [found.as_json() for found in mmodel.datasets.all(mmodel.tenant)]
    line.show(rows, ("ref", "rows", "bytes", "digest"), as_json=as_json)


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(help="show this model's versions")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List models, or one model's versions."""
    mmodel = open_layer(tenant)
    if name is None:
        line.show(
            mmodel.registry.models(mmodel.tenant),
            ("name", "type", "newest", "versions", "bytes", "aliases"),
            as_json=as_json,
        )
    else:
        rows = [version.as_json() for version in mmodel.registry.all(mmodel.tenant, name)]
        line.show(rows, COLUMNS, as_json=as_json)


@app.command()
def verify(
    ref: str,
    public_key: Annotated[
        list[Path] | None, typer.Option(help="check that one of these keys has signed it; may be repeated")
    ] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Re-read a version's files and check their digests, and its signature where a key is given."""
    mmodel = open_layer(tenant)
    version = mmodel.verify(ref)
    signer = {"signer": mmodel.signatures.check(version, public_key)} if public_key else {}
    line.show([{**version.as_json(), **signer}], (*COLUMNS, *signer), as_json=as_json)


@app.command()
def sign(
    ref: str,
    key: Annotated[Path, typer.Option(help="elliptic-curve private key, PEM")],
    password_file: Annotated[Path | None, typer.Option(help="file with the key's password")] = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Sign a version (OpenSSF Model Signing); the key is read and not kept."""
    password = password_file.read_text("utf-8").strip() if password_file is not None else None
    mmodel = open_layer(tenant)
    version = mmodel.version(ref)
    signer = mmodel.sign(version, key, password=password)
    line.show([{"ref": version.ref, "signer": signer}], ("ref", "signer"), as_json=as_json)


@app.command()
def check(
    folder: Annotated[Path, typer.Argument(help="a model's folder with its model-manifest.json")],
    digest: Annotated[str | None, typer.Option(help="the version's digest, as the registry shows it")] = None,
    as_json: Json = False,
) -> None:
    """Check a downloaded model against its manifest; needs no registry."""
    from l4_mmodel.registry.checking import check_folder

    with Progress(as_json) as advance:
        found = check_folder(folder, digest=digest, progress=advance)
    line.show([{"folder": str(folder), "digest": found}], ("folder", "digest"), as_json=as_json)


@app.command()
def lineage(ref: str, tenant: Tenant = None, as_json: Json = False) -> None:
    """Show what a version was made from, and what was made of it."""
    graph = open_layer(tenant).lineage(ref).as_json()
    if as_json:
        line.show_json(graph)
        return
    labels = {node["digest"]: f"{node['kind']} {node['label']}" for node in graph["nodes"]}
    rows = [{"from": labels[e["from"]], "how": e["how"], "to": labels[e["to"]]} for e in graph["edges"]]
    line.show(rows, ("from", "how", "to"), as_json=False)


@app.command()
def alias(
    ref: str,
    name: Annotated[str, typer.Argument(help="the alias")],
    reason: Annotated[str, typer.Option(help="why, for its history")] = "",
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Point an alias to a version."""
    line.show([open_layer(tenant).alias(ref, name, reason=reason).as_json()], COLUMNS, as_json=as_json)


@app.command()
def delete(ref: str, tenant: Tenant = None) -> None:
    """Remove a version that nothing refers to."""
    open_layer(tenant).delete(ref)


@app.command()
def seal(as_json: Json = False) -> None:
    """Encrypt what was stored before OGAI_L4_ENCRYPT was set."""
    line.show([{"sealed files": open_layer().seal()}], ("sealed files",), as_json=as_json)


@app.command()
def gc(
    dry_run: Annotated[bool, typer.Option(help="only say what would go")] = False,
    as_json: Json = False,
) -> None:
    """Remove stored content that no version and no data set refers to."""
    gone = open_layer().collect(dry_run=dry_run)
    rows = [{"tenant": tenant, "digest": digest, "bytes": size} for tenant, digest, size in gone]
    line.show(rows, ("tenant", "digest", "bytes"), as_json=as_json)


@app.command()
def audit(tenant: Tenant = None, as_json: Json = False) -> None:
    """Show who did what, newest first; fails if the chain of rows is broken."""
    mmodel = open_layer(tenant)
    line.show(mmodel.store.audit_rows(mmodel.tenant), ("id", "at", "by", "action", "target"), as_json=as_json)
    broken = mmodel.store.broken_audit_row()
    if broken is not None:
        raise Failed(f"audit row {broken} was changed, or one before it was taken out")


def _tags(pairs: list[str] | None) -> dict[str, str]:
    found = dict(pair.partition("=")[::2] for pair in pairs or ())
    if not all(found):
        raise BadInput("must be NAME=VALUE", field="tag")
    return found
