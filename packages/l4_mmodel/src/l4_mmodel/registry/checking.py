"""Checking a folder of a model against its manifest: what a download did to it, anyone can tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from l4_mmodel._kit.documents import digest_of_file
from l4_mmodel._kit.problems import Failed
from l4_mmodel.security.paths import check_relative

from .manifests import MODEL_SCHEMA, ManifestFile, open_manifest, read_model_manifest

Progress = Callable[[str, int, int], None]


def check_folder(folder: Path, *, digest: str | None = None, progress: Progress | None = None) -> str:
    """Reads every file that the folder's `model-manifest.json` names; returns the manifest's digest.

    `digest` is what the registry says (`NAME@1`'s digest): with it a changed manifest is found as well.
    `Failed` names every file that is missing or changed.
    """
    opened = open_manifest(folder, MODEL_SCHEMA)
    if digest is not None and opened.digest != digest:
        raise Failed(
            "the manifest is not the registered one",
            why=f"its digest is {opened.digest}, expected {digest}",
            do="fetch the model again",
        )
    manifest = read_model_manifest(opened.value, str(folder))
    total, done, wrong = sum(file.bytes for file in manifest.files), 0, []
    for file in manifest.files:
        fault = _fault(opened.folder, file)
        if fault is not None:
            wrong.append(f"{file.uri} {fault}")
        done += file.bytes
        if progress is not None:
            progress(file.uri, done, total)
    if wrong:
        raise Failed(
            f"{len(wrong)} of {len(manifest.files)} files are not what the manifest says",
            why="; ".join(wrong[:5]), do="fetch them again",
        )  # fmt: skip
    return opened.digest


def _fault(folder: Path, file: ManifestFile) -> str | None:
    """What is wrong with a file; links are followed, since caches of downloads are made of them."""
    path = folder.joinpath(*check_relative(file.uri))
    if not path.is_file():
        return "is missing"
    size = path.stat().st_size
    if size != file.bytes:
        return f"has {size} bytes instead of {file.bytes}"
    found = digest_of_file(path)
    return None if found == file.sha256 else f"was changed: its SHA-256 is {found.removeprefix('sha256:')}"
