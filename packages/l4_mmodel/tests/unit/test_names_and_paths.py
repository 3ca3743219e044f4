"""References, names, and paths that stay inside their folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel.api import BadInput
from l4_mmodel.registry.names import Ref, check_name, parse_ref
from l4_mmodel.security.paths import check_relative, open_inside


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("llama-3.1_8B", Ref(name="llama-3.1_8B")),
        ("m@3", Ref(name="m", number=3)),
        ("m@production", Ref(name="m", alias="production")),
        ("sha256:" + "a" * 64, Ref(digest="sha256:" + "a" * 64)),
    ],
)
def test_references(text: str, ref: Ref) -> None:
    assert parse_ref(text) == ref
    assert str(ref) == text


@pytest.mark.parametrize("text", ["", "@", "m@", "m@0", "m@-1", "a/b", "../m", "m@A", "m@x y", "m@３"])
def test_no_references(text: str) -> None:
    with pytest.raises(BadInput):
        parse_ref(text)


@given(st.text(max_size=20))
def test_a_name_never_leaves_its_folder(text: str) -> None:
    try:
        check_name(text)
    except BadInput:
        return
    assert Path(text).name == text
    assert not text.startswith(".")


@pytest.mark.parametrize(
    "uri", ["/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "", "a\\b", "a\x00b", "a\nb", "x" * 600]
)
def test_paths_that_are_refused(uri: str) -> None:
    with pytest.raises(BadInput):
        check_relative(uri)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("in")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("real")
    os.mkfifo(tmp_path / "pipe")
    with open_inside(tmp_path, "real/file") as descriptor:
        assert os.read(descriptor, 9) == b"in"
    for uri, fault in (
        ("link", "symbolic link"),
        ("folder/file", "link"),
        ("pipe", "regular"),
        ("real", "regular"),
        ("none", "no such file"),
        ("real/file/x", "folders"),
    ):
        with pytest.raises(BadInput, match=fault), open_inside(tmp_path, uri):
            pass
