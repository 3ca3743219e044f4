"""A service's own log lines reach plans and reports without its secrets."""

from __future__ import annotations

import json

import pytest
from l1_podsys.core.facts import Facts, hide_words

SECRET = 's3cret $x "y" \\ `z`'


def facts_with(lines: list[str]) -> Facts:
    """The least that a probe says, with a failed unit."""
    value = {
        "schema": "podsys.facts/v1",
        "hostname": "n1",
        "os": {"id": "debian", "version_id": "12", "codename": "bookworm", "name": "Debian"},
        "kernel": "6.1",
        "arch": "x86_64",
        "cpu": {"cores": 2},
        "memory": {"total_bytes": 2**30},
        "python": "3.11",
        "answers": {"units": {"hello.service": {"load": "loaded", "active": "failed", "log": lines}}},
    }
    return Facts.model_validate(value)


@pytest.mark.parametrize(
    "form", [SECRET, repr({"TOKEN": SECRET}), json.dumps({"token": SECRET})], ids=["plain", "python", "json"]
)
def test_a_secret_is_hidden_however_it_was_printed(form: str) -> None:
    log = (
        hide_words(facts_with([f"starting with {form}", "port 80"]), [SECRET])
        .answers.units["hello.service"]
        .log
    )
    assert "s3cret" not in " ".join(log)
    assert "***" in log[0]
    assert log[1] == "port 80"


def test_short_words_hide_nothing() -> None:
    log = hide_words(facts_with(["a port 80"]), ["a", "80"]).answers.units["hello.service"].log
    assert log == ["a port 80"]
