"""`mmodel import`: a source becomes a folder, the folder gets a manifest, the manifest is registered."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from l4_mmodel._kit.documents import digest_of
from l4_mmodel._kit.files import locked
from l4_mmodel._kit.problems import BadInput
from l4_mmodel.registry.manifests import MODEL_SCHEMA, Opened, open_manifest
from l4_mmodel.security.paths import check_relative

from .anywhere import AnywhereSource
from .downloads import RemoteFile, download
from .hub import HubSource
from .layout import IGNORED, describe

UNSAFE = {
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".pkl",
    ".pickle",
    ".h5",
    ".msgpack",
    ".onnx",
    ".py",
    ".ot",
    ".tflite",
    ".npz",
}
"""Endings that are not even fetched: they are never stored."""

Progress = Callable[[str, int, int], None]


class Source(Protocol):
    """Where a model is fetched from; `identity` changes when what lies there does."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def identity(self) -> str: ...
    def files(self) -> list[RemoteFile]: ...
    def open_at(self, file: RemoteFile, offset: int) -> Iterator[bytes]: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Brought:
    """A folder that is ready to be registered, and what was left out of it, with reasons."""

    opened: Opened
    left_out: dict[str, str]
    source: str
    temporary: bool


def bring(
    source: str,
    imports: Path,
    *,
    producer: dict[str, str],
    name: str | None,
    type_: str | None,
    licence: str | None,
    base: dict[str, str] | None,
    progress: Progress | None,
) -> Brought:
    """Fetches `source` (a folder, `hf://…`, or an fsspec address) and describes it.

    A download lies below `imports` until it is registered, so that one that was killed goes on.
    """
    if "://" not in source:
        folder, told, version, identity, skipped = _local(source)
    else:
        with contextlib.closing(_remote(source)) as remote:
            identity, told, version = remote.identity, remote.name, remote.version
            folder = imports / hashlib.sha256(identity.encode()).hexdigest()[:32]
            with locked(folder.with_suffix(".lock")):
                skipped = fetch(remote, folder, progress)
    if (folder / "model-manifest.json").is_file():
        opened, left_out = open_manifest(folder, MODEL_SCHEMA), {}
    else:
        layout = describe(
            folder,
            producer=producer,
            name=name or told,
            version=version,
            type_=type_,
            licence=licence,
            base=base,
        )
        opened, left_out = Opened(folder, layout.manifest, digest_of(layout.manifest)), layout.left_out
    return Brought(opened, {**skipped, **left_out}, identity, temporary="://" in source)


def _local(source: str) -> tuple[Path, str, str, str, dict[str, str]]:
    folder = Path(source)
    if not folder.is_dir():
        raise BadInput(
            "no such folder", field="source", do="give a folder, hf://OWNER/NAME, or an address like s3://…"
        )
    return folder, folder.resolve().name, "1", folder.resolve().name, {}


def _remote(source: str) -> Source:
    return HubSource(source.removeprefix("hf://")) if source.startswith("hf://") else AnywhereSource(source)


def fetch(remote: Source, folder: Path, progress: Progress | None) -> dict[str, str]:
    """Downloads every file that may be stored; returns those that may not, with the reason."""
    wanted, skipped = [], {}
    for file in remote.files():
        parts = check_relative(file.path)
        if any(part.startswith(".") for part in parts) or parts[-1] in IGNORED - {"model-manifest.json"}:
            continue
        if Path(file.path).suffix.lower() in UNSAFE:
            skipped[file.path] = "not fetched: this kind of file may hold code"
        else:
            wanted.append(file)
    total, done = sum(file.size for file in wanted), 0
    for file in wanted:

        def advance(count: int, path: str = file.path) -> None:
            nonlocal done
            done += count
            if progress is not None:
                progress(path, done, total)

        download(file, folder / file.path, functools.partial(remote.open_at, file), advance)
    return skipped


def forget(brought: Brought) -> None:
    """Removes a download that is registered."""
    if brought.temporary:
        brought.opened.folder.with_suffix(".lock").unlink(missing_ok=True)
        shutil.rmtree(brought.opened.folder, ignore_errors=True)
