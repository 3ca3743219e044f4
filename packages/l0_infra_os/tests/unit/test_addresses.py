"""Address ranges as people write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l0_infra_os._kit.problems import BadInput
from l0_infra_os.core.addresses import expand, expand_all


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("127.0.0.1:8101-8103", ["127.0.0.1:8101", "127.0.0.1:8102", "127.0.0.1:8103"]),
        ("10.0.0.5", ["10.0.0.5"]),
        ("10.0.0.254-10.0.1.1", ["10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1"]),
        ("10.0.0.0/30", ["10.0.0.1", "10.0.0.2"]),
        ("10.0.0.0/30:8000", ["10.0.0.1:8000", "10.0.0.2:8000"]),
        ("https://bmc-1.example:443", ["https://bmc-1.example:443"]),
        ("http://[::1]:8000-8001", ["http://[::1]:8000", "http://[::1]:8001"]),
    ],
)
def test_ranges(text: str, addresses: list[str]) -> None:
    assert expand(text) == addresses


@pytest.mark.parametrize(
    "text",
    ["", "a b", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1:9-8", "10.0.0.9-10.0.0.1", "10.0.0.0/8",
     "10.0.0.1-10.9.9.9", "10.0.0.0/99", "10.0.0.1-x", "ftp://10.0.0.1"],
)  # fmt: skip
def test_what_is_no_range_is_said_with_the_text(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        expand(text)
    assert caught.value.field == "addresses"


def test_an_address_in_two_ranges_is_looked_at_once() -> None:
    assert expand_all(["10.0.0.1", "10.0.0.0/30"]) == ["10.0.0.1", "10.0.0.2"]


@given(st.text(max_size=40))
def test_any_text_is_a_list_or_bad_input(text: str) -> None:
    with contextlib.suppress(BadInput):
        assert expand(text)
