"""A service's own log lines reach plans and reports without its secrets."""

from __future__ import annotations

import json

import pytest
from l1_podsys.core.facts import Answers, Facts, UnitState, hide_words

SECRET = 's3cret $x "y" \\ `z`'


def facts_with(lines: list[str]) -> Facts:
    units = {"hello.service": UnitState(load="loaded", active="failed", log=lines), "gone.service": None}
    answers = Answers(units=units)
    return Facts.model_construct(answers=answers)


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
