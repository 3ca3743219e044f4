"""The image store, the download that checks, and the recipes."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import pytest
from l0_infra_os._kit.problems import BadInput, Failed
from l0_infra_os.backends.images import FolderImages
from l0_infra_os.backends.images.initramfs import _cpio
from l0_infra_os.backends.images.recipe import DISK, ROOT
from l0_infra_os.backends.images.transfer import Mismatch, download
from l0_infra_os.testing import ImageStoreContract


class TestFolderImages(ImageStoreContract):
    @pytest.fixture
    def images(self, tmp_path: Path) -> FolderImages:
        return FolderImages(tmp_path / "images")

    def test_damage_is_found(self, images: FolderImages, tmp_path: Path) -> None:
        file = tmp_path / "system"
        file.write_bytes(b"whole")
        image = images.add("system", file, format="raw.zst")
        blob = images.path(image.digest)
        blob.chmod(0o644)
        blob.write_bytes(b"wrong")
        with pytest.raises(Failed, match="damaged"):
            images.verify(image.digest)

    def test_a_file_that_two_names_have_stays_until_both_are_gone(
        self, images: FolderImages, tmp_path: Path
    ) -> None:
        file = tmp_path / "system"
        file.write_bytes(b"bytes")
        image = images.add("one", file, format="tar.zst")
        images.add("two", file, format="tar.zst")
        images.remove("one")
        assert images.path(image.digest).read_bytes() == b"bytes"
        assert FolderImages(images.folder).list() == [dataclasses.replace(image, name="two")]

    @pytest.mark.parametrize("name", ["", "sha256:" + "0" * 64])
    def test_bad_names_are_refused(self, images: FolderImages, tmp_path: Path, name: str) -> None:
        file = tmp_path / "system"
        file.write_bytes(b"bytes")
        with pytest.raises(BadInput) as refused:
            images.add(name, file, format="tar.zst")
        assert refused.value.field == "name"

    @pytest.mark.parametrize("digest", ["../../etc/passwd", "sha256:" + "g" * 64, "sha256:00"])
    def test_a_digest_is_no_path(self, images: FolderImages, digest: str) -> None:
        with pytest.raises(BadInput):
            images.path(digest)


def test_a_download_is_hashed_on_the_way(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"abc")
    # SHA-256 of "abc" from FIPS 180-4, appendix B.1
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert download(source.as_uri(), target, sha256=expected, size=3) == (expected, 3)
    assert target.read_bytes() == b"abc"


@pytest.mark.parametrize(("promised", "size"), [("0" * 64, 3), (hashlib.sha256(b"abc").hexdigest(), 2)])
def test_wrong_bytes_leave_no_file(tmp_path: Path, promised: str, size: int) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"abc")
    with pytest.raises(Mismatch):
        download(source.as_uri(), target, sha256=promised, size=size)
    assert not target.exists()


def test_a_changed_recipe_is_another_image() -> None:
    assert ROOT.key == dataclasses.replace(ROOT).key
    more = dataclasses.replace(ROOT, packages=(*ROOT.packages, "vim"))
    assert len({ROOT.key, DISK.key, more.key}) == 3


def test_the_initramfs_is_what_cpio_reads(tmp_path: Path) -> None:
    """Checked by the independent reader that this host has, if it has one."""
    import shutil
    import subprocess

    cpio = shutil.which("cpio")
    command = [cpio] if cpio else ["busybox", "cpio"]
    if not cpio and not shutil.which("busybox"):
        pytest.skip("needs cpio or busybox")
    entries = {"d": (0o040755, b""), "d/file": (0o100644, b"odd"), "link": (0o120777, b"d/file")}
    done = subprocess.run(
        [*command, "-idm"], input=_cpio(entries), cwd=tmp_path, capture_output=True, check=True
    )
    assert done.returncode == 0
    assert (tmp_path / "link").read_bytes() == b"odd"
    assert (tmp_path / "d" / "file").stat().st_mode & 0o777 == 0o644
