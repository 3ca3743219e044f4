"""A bundle is used only when every byte of it is what SHA256SUMS says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from l1_podsys.api import BadInput, Podsys
from l1_podsys.backends.bundle import BASE, open_bundle


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "aa_1_all.deb").write_bytes(b"deb aa")
    (folder / "bb_1_all.deb").write_bytes(b"deb bb")
    debs = [
        {"package": name, "version": "1", "file": f"{name}_1_all.deb",
         "sha256": hashlib.sha256(f"deb {name}".encode()).hexdigest()}
        for name in ("aa", "bb")
    ]  # fmt: skip
    index = {"schema": "podsys.bundle/v1", "suite": "bookworm", "arch": "amd64", "debs": debs,
             "closures": {"aa": ["aa", "bb"]}, "base": list(BASE)}  # fmt: skip
    (folder / "bundle.json").write_text(json.dumps(index))
    names = ["aa_1_all.deb", "bb_1_all.deb", "bundle.json"]
    sums = (f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    (folder / "SHA256SUMS").write_text("".join(sums))
    return folder


def test_a_whole_one_is_opened_and_used_again_without_apt(tmp_path: Path, podsys: Podsys) -> None:
    folder = make(tmp_path / "bundle")
    assert [deb.package for deb in open_bundle(folder).closure("aa")] == ["aa", "bb"]
    place, index = podsys.bundle(["aa"], folder)
    assert place == folder
    assert len(index.debs) == 2


def flip(folder: Path) -> None:
    (folder / "bb_1_all.deb").write_bytes(b"deb B")


def remove(folder: Path) -> None:
    (folder / "aa_1_all.deb").unlink()


def change_index(folder: Path) -> None:
    (folder / "bundle.json").write_text((folder / "bundle.json").read_text().replace("amd64", "arm64"))


def uncover(folder: Path) -> None:
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    (folder / "SHA256SUMS").write_text("\n".join(lines[1:]) + "\n")


def escape(folder: Path) -> None:
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  ../../etc/passwd\n")


@pytest.mark.parametrize("harm", [flip, remove, change_index, uncover, escape])
def test_a_damaged_one_is_refused(tmp_path: Path, harm: object) -> None:
    folder = make(tmp_path / "bundle")
    assert callable(harm)
    harm(folder)
    with pytest.raises(BadInput):
        open_bundle(folder)


@pytest.mark.parametrize("name", ["-o", "a b", "A", "x;y", "../x"])
def test_only_names_of_packages_reach_apt(podsys: Podsys, name: str) -> None:
    with pytest.raises(BadInput):
        podsys.bundle([name])
