"""Reader models: the fields of other layers' documents that the registry uses, the rest ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from l4_mmodel._kit.documents import Digest, Reference, digest_of, read_json, validated
from l4_mmodel._kit.problems import BadInput

MODEL_SCHEMA = "ogai.model-manifest/v1"
DATASET_SCHEMA = "ogai.dataset-manifest/v1"


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class ManifestFile(_Read):
    """A file, relative to the manifest's folder."""

    uri: str
    sha256: Digest
    bytes: int = Field(ge=0)


class TrainedOn(_Read):
    """Digests of what a model was made with."""

    dataset: Digest | None = None
    plan: Digest | None = None
    job: Digest | None = None


class ModelManifest(_Read):
    """What is read of a `model-manifest/v1`."""

    schema_: str = Field(alias="schema")
    name: str
    type: str
    architecture: str
    parameters: int = 0
    dtype: str = ""
    licence: str
    files: list[ManifestFile] = Field(min_length=1)
    inputs: list[Reference] = Field(default_factory=list)
    base: Reference | None = None
    derived_from: Digest | None = None
    training: TrainedOn | None = None


class DatasetManifest(_Read):
    """What is read of a `dataset-manifest/v1`."""

    schema_: str = Field(alias="schema")
    name: str
    kind: str = ""
    rows: int = Field(ge=0)
    shards: list[ManifestFile] = Field(min_length=1)
    inputs: list[Reference] = Field(default_factory=list)


class Opened(NamedTuple):
    """A document as it was read: the folder it lies in, its JSON value and its digest."""

    folder: Path
    value: dict[str, Any]
    digest: str


def open_manifest(path: Path, schema: str) -> Opened:
    """The document at `path` (or the one of its name in a folder), checked to be of `schema`."""
    if path.is_dir():
        path = path / f"{schema.removeprefix('ogai.').partition('/')[0]}.json"
    value = read_json(path)
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise BadInput(f"is not a document of schema {schema}", field=str(path), do="give its path")
    return Opened(path.parent, value, digest_of(value))


def read_model_manifest(value: dict[str, Any], where: str) -> ModelManifest:
    """The manifest, with no file named twice."""
    manifest = validated(ModelManifest, value, where=where)
    _no_twins(manifest.files, "files")
    return manifest


def read_dataset_manifest(value: dict[str, Any], where: str) -> DatasetManifest:
    """The manifest, with no shard named twice."""
    manifest = validated(DatasetManifest, value, where=where)
    _no_twins(manifest.shards, "shards")
    return manifest


def _no_twins(files: list[ManifestFile], field: str) -> None:
    seen: set[str] = set()
    for file in files:
        if file.uri in seen:
            raise BadInput(f"{file.uri} is named twice", field=field)
        seen.add(file.uri)
