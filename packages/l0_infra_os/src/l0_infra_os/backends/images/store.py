"""`FolderImages`: files under their SHA-256, and a small index from names to digests."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from l0_infra_os._kit.documents import digest_of_file
from l0_infra_os._kit.files import atomic_write, locked
from l0_infra_os._kit.problems import BadInput, Failed, NotFound
from l0_infra_os.ports import Image, ImageFormat

FORMATS = ("tar.zst", "raw.zst")


class FolderImages:
    """An `ImageStore` in one folder: `blobs/<sha256>` never change, `index.json` names them."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.blobs = self.folder / "blobs"
        self.index = self.folder / "index.json"

    def add(self, name: str, path: Path, *, format: ImageFormat, digest: str | None = None) -> Image:  # noqa: A002
        """Takes a file in under its digest; a name that was there points to the new file.

        The file is copied, and appears under its digest only when it is whole.
        """
        self._check(name, path, format)
        found = digest_of_file(path)
        if digest is not None and digest != found:
            raise BadInput(
                f"{path.name} has the digest {found}, not the promised {digest}",
                field="digest",
                do="fetch the file again, or correct the digest",
            )
        image = Image(name=name, digest=found, format=format, size_bytes=path.stat().st_size)
        with self._changing() as images:
            self._take_in(path, self._blob(found))
            images[name] = image
        return image

    def get(self, name: str) -> Image:
        """The image of that name or digest."""
        images = self._read()
        if name in images:
            return images[name]
        for image in images.values():
            if image.digest == name:
                return image
        known = ", ".join(sorted(images)) or "none yet"
        raise NotFound(f"no image {name!r}", why=f"known images: {known}", do="infra-os image build")

    def list(self) -> list[Image]:
        """All images, by name."""
        return [image for _, image in sorted(self._read().items())]

    def path(self, digest: str) -> Path:
        """The file with this digest."""
        blob = self._blob(digest)
        if not blob.is_file():
            raise NotFound(f"no image file with the digest {digest}")
        return blob

    def verify(self, digest: str) -> None:
        """Hashes the file again."""
        found = digest_of_file(self.path(digest))
        if found != digest:
            raise Failed(
                f"the stored image {digest} is damaged",
                why=f"its bytes have the digest {found}",
                do="remove the image and add it again",
            )

    def remove(self, name: str) -> None:
        """Forgets a name, and the file when no other name has it."""
        with self._changing() as images:
            image = images.pop(name, None)
            if image is None:
                raise NotFound(f"no image {name!r}")
            if all(other.digest != image.digest for other in images.values()):
                self._blob(image.digest).unlink(missing_ok=True)

    def _check(self, name: str, path: Path, image_format: str) -> None:
        if not name or name.startswith("sha256:"):
            raise BadInput("an image needs a name, and a digest is none", field="name")
        if image_format not in FORMATS:
            raise BadInput(f"{image_format!r} is not one of {', '.join(FORMATS)}", field="format")
        if not path.is_file():
            raise BadInput(f"there is no file {path}", field="path")

    def _blob(self, digest: str) -> Path:
        hexadecimal = digest.removeprefix("sha256:")
        if len(hexadecimal) != 64 or set(hexadecimal) - set("0123456789abcdef"):
            raise BadInput(f"{digest!r} is not sha256: and 64 hex digits", field="digest")
        return self.blobs / hexadecimal

    def _read(self) -> dict[str, Image]:
        try:
            entries = json.loads(self.index.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        return {entry["name"]: Image(**entry) for entry in entries}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Image]]:
        with locked(self.folder / "lock"):
            images = self._read()
            yield images
            entries = [asdict(image) for _, image in sorted(images.items())]
            atomic_write(self.index, json.dumps(entries, indent=1))

    @staticmethod
    def _take_in(path: Path, blob: Path) -> None:
        if blob.exists() and blob.stat().st_size == path.stat().st_size:
            return
        blob.parent.mkdir(parents=True, exist_ok=True)
        neighbour = blob.with_name(f".{blob.name}.tmp")
        neighbour.unlink(missing_ok=True)
        shutil.copyfile(path, neighbour)  # not a link: the blob must not change with its source
        neighbour.chmod(0o444)
        os.replace(neighbour, blob)
