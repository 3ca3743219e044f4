"""Reading models with the clients of the Hugging Face Hub: `HF_ENDPOINT=http://HOST:PORT/hub`.

The paths and headers are those that `huggingface_hub` 0.34 to 2.x asks for (model info, tree, resolve).
A repository is a model, `NAME` or `TENANT/NAME`; a revision is `main` (the newest version), a number,
an alias, or the first 40 digits of a version's digest, which stand where the Hub has a commit.  The
manifest is one of the files, so that a downloaded folder can be checked: the client itself compares
sizes only.
"""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from l4_mmodel._kit.problems import NotFound, Problem
from l4_mmodel._kit.web import Caller
from l4_mmodel.registry.versions import Version
from l4_mmodel.service import Mmodel

from .access import mine
from .ranges import sealed_response

router = APIRouter(prefix="/hub", include_in_schema=False)  # its schema is the Hub's
MANIFEST = "model-manifest.json"
SIGNATURE = "model.sig"
NEWEST = "main"
COMMIT = re.compile(r"^[0-9a-f]{40}$")


@router.get("/api/whoami-v2")
def whoami(who: Caller) -> dict[str, Any]:
    """The caller, as `huggingface_hub.whoami` expects it."""
    return {
        "type": "user",
        "name": who.name,
        "orgs": [{"name": who.tenant}],
        "auth": {"type": "access_token"},
    }


@router.get("/api/models/{name}")
@router.get("/api/models/{tenant}/{name}")
def newest_info(request: Request, who: Caller, name: str, tenant: str | None = None) -> Response:
    """The newest version of a model and the names of its files."""
    return info(request, who, name, NEWEST, tenant)


@router.get("/api/models/{name}/revision/{revision}")
@router.get("/api/models/{tenant}/{name}/revision/{revision}")
def info(request: Request, who: Caller, name: str, revision: str, tenant: str | None = None) -> Response:
    """A version and the names of its files."""
    mmodel, version, refused = _find(request, who, tenant, name, revision)
    if version is None:
        return refused
    modified = datetime.fromtimestamp(version.created_at, UTC).isoformat().replace("+00:00", "Z")
    return JSONResponse(
        {
            "_id": commit_of(version), "id": _repository(tenant, name), "modelId": _repository(tenant, name),
            "sha": commit_of(version), "private": True, "gated": False, "disabled": False,
            "lastModified": modified, "createdAt": modified, "downloads": 0, "likes": 0,
            "tags": [f"license:{version.licence}", *sorted(version.aliases)],
            "siblings": [
                {"rfilename": row["path"], "size": row["size"], "blobId": row["oid"], "lfs": row["lfs"]}
                for row in _tree(mmodel, version)
            ],
        }
    )  # fmt: skip


@router.get("/api/models/{name}/tree/{revision}")
@router.get("/api/models/{tenant}/{name}/tree/{revision}")
def tree(request: Request, who: Caller, name: str, revision: str, tenant: str | None = None) -> Response:
    """Every file of a version with its size and SHA-256."""
    mmodel, version, refused = _find(request, who, tenant, name, revision)
    return refused if version is None else JSONResponse(_tree(mmodel, version))


@router.api_route("/{name}/resolve/{revision}/{path:path}", methods=["GET", "HEAD"])
@router.api_route("/{tenant}/{name}/resolve/{revision}/{path:path}", methods=["GET", "HEAD"])
def resolve(
    request: Request, who: Caller, name: str, revision: str, path: str, tenant: str | None = None
) -> Response:
    """A file's bytes; ranges are answered, so that a broken download goes on where it stopped."""
    mmodel, version, refused = _find(request, who, tenant, name, revision)
    if version is None:
        return refused
    headers = {"X-Repo-Commit": commit_of(version)}
    made = _made(mmodel, version).get(path)
    if made is not None:
        return Response(
            made, media_type="application/json", headers={**headers, "ETag": f'"{_sha256(made)}"'}
        )
    digest = version.files.get(path)
    if digest is None:
        return _missing("EntryNotFound", f"{version.ref} has no file {path!r}", **headers)
    if request.method == "GET":
        mmodel.note_read(version, path)
    hexdigest = digest.removeprefix("sha256:")
    headers |= {"ETag": f'"{hexdigest}"', "X-Linked-Etag": f'"{hexdigest}"'}
    return _bytes_of(request, mmodel, version, digest, headers)


def _bytes_of(
    request: Request, mmodel: Mmodel, version: Version, digest: str, headers: dict[str, str]
) -> Response:
    if mmodel.blobs.ring is None:
        place = mmodel.blobs.place(version.tenant, digest)
        return FileResponse(place, media_type="application/octet-stream", headers=headers)
    return sealed_response(request, mmodel.blobs.open(version.tenant, digest), headers)


def commit_of(version: Version) -> str:
    """What stands for a commit: the first 40 digits of the version's digest."""
    return version.digest.removeprefix("sha256:")[:40]


def _made(mmodel: Mmodel, version: Version) -> dict[str, bytes]:
    """Files that are written out for the client: the manifest, and the newest signature if there is one."""
    made = {MANIFEST: (json.dumps(version.manifest, indent=1, ensure_ascii=False) + "\n").encode()}
    signed = mmodel.signatures.of(version)
    if signed:
        made[SIGNATURE] = signed[0]["bundle"].encode()
    return {path: data for path, data in made.items() if path not in version.files}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _repository(tenant: str | None, name: str) -> str:
    return name if tenant is None else f"{tenant}/{name}"


def _tree(mmodel: Mmodel, version: Version) -> list[dict[str, Any]]:
    rows = [
        (file["uri"], file["bytes"], file["sha256"].removeprefix("sha256:"))
        for file in version.manifest["files"]
    ]
    rows += [(path, len(data), _sha256(data)) for path, data in _made(mmodel, version).items()]
    return [
        {
            "type": "file", "path": path, "size": size, "oid": digest[:40],
            "lfs": {"oid": digest, "sha256": digest, "size": size, "pointerSize": 134},
        }
        for path, size, digest in sorted(rows)
    ]  # fmt: skip


def _find(
    request: Request, who: Caller, tenant: str | None, name: str, revision: str
) -> tuple[Mmodel, Version | None, Response]:
    """The version, or the refusal that the Hub's client understands."""
    try:
        mmodel = mine(request, who, tenant)
        newest = mmodel.version(name)
    except Problem:
        own: Mmodel = request.app.state.mmodel
        return own, None, _missing("RepoNotFound", f"no model {_repository(tenant, name)}")
    try:
        if revision == NEWEST:
            return mmodel, newest, Response()
        if COMMIT.match(revision):
            return mmodel, mmodel.registry.by_commit(mmodel.tenant, name, revision), Response()
        return mmodel, mmodel.version(f"{name}@{revision}"), Response()
    except Problem:
        return mmodel, None, _missing("RevisionNotFound", f"{name} has no version {revision!r}")


def _missing(code: str, message: str, **headers: str) -> Response:
    problem = NotFound(message, do="see `mmodel models`")
    return JSONResponse(
        {"error": message, "do": problem.do},
        404,
        {"X-Error-Code": code, "X-Error-Message": message, **headers},
    )
