"""Reading and writing `model-manifest/v1` beside a model's files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from l3_ylink._kit.documents import Producer, Reference, digest_of_file
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import FileEntry, ModelManifest, Training

MANIFEST = "model-manifest.json"
TOKENIZER = "tokenizer.json"
NOT_MODEL_FILES = (MANIFEST,)
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")


def entries(folder: Path) -> list[FileEntry]:
    """Every file of a model's folder with size and digest; a pickle among them is refused."""
    rows = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name in NOT_MODEL_FILES or path.name.startswith("."):
            continue
        if path.suffix in PICKLES:
            raise BadInput("may hold code (pickle)", field=name, do="convert it to safetensors first")
        rows.append(FileEntry(uri=name, sha256=digest_of_file(path), bytes=path.stat().st_size))
    return rows


def write_manifest(
    folder: Path,
    *,
    name: str,
    type: str,  # noqa: A002 (the document's word)
    architecture: str,
    parameters: int,
    dtype: str,
    licence: str,
    inputs: Iterable[Reference] = (),
    base: Reference | None = None,
    derived_from: str | None = None,
    training: Training | None = None,
    languages: Iterable[str] = (),
) -> ModelManifest:
    """Hashes the folder's files and writes `model-manifest.json`, last."""
    from l3_ylink import __version__

    tokenizer = folder / TOKENIZER
    manifest = ModelManifest(
        producer=Producer(name="l3-ylink", version=__version__),
        inputs=list(inputs),
        name=name,
        version="1",
        type=type,
        architecture=architecture,
        parameters=parameters,
        dtype=dtype,
        files=entries(folder),
        tokenizer_digest=digest_of_file(tokenizer) if tokenizer.is_file() else None,
        licence=licence,
        base=base,
        derived_from=derived_from,
        training=training,
        languages=list(languages),
    )
    manifest.write(folder / MANIFEST)
    return manifest


def read_model(path: Path, *, verify: bool = True) -> tuple[Path, ModelManifest]:
    """A model's folder and manifest; with `verify` every file is compared with its digest."""
    file = path / MANIFEST if path.is_dir() else path
    if path.is_dir() and not file.exists():
        raise BadInput(f"has no {MANIFEST}", field=str(path), do="import it with ylink model import-gguf")
    manifest = ModelManifest.read(file)
    folder = file.parent
    for entry in manifest.files if verify else ():
        part = folder / entry.uri
        if not part.is_file():
            raise BadInput("is missing", field=entry.uri, do="copy the whole folder of the model")
        if part.stat().st_size != entry.bytes or digest_of_file(part) != entry.sha256:
            raise BadInput(
                "is not the file that the manifest names (size or SHA-256 differ)",
                field=entry.uri,
                do="import or train the model again",
            )
    return folder, manifest
