"""Recipes: what is refused, in which words; what a recipe's keys depend on."""

from pathlib import Path
from typing import Any

import pytest
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.gather.listing import matches
from l3_ylink.datakit.quality.rules import RULES
from l3_ylink.datakit.recipe import Recipe, load_recipe, parse_recipe
from l3_ylink.datakit.steps.judge import Quality
from pydantic import ValidationError

SOURCE = {"name": "docs", "licence": "MIT"}


def recipe(*steps: dict[str, Any] | str, **more: Any) -> Recipe:
    return parse_recipe({"name": "x", "sources": [SOURCE], "steps": list(steps), **more})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "is not a mapping"),
        ({"name": "x", "sources": [SOURCE], "steps": [{"step": "extrct"}]}, "did you mean extract"),
        ({"name": "x", "sources": [SOURCE], "steps": ["extract"]}, "write it as `- step: NAME`"),
        ({"name": "x", "sources": [SOURCE], "steps": [{"step": "clean"}]}, "first step must be extract"),
        ({"name": "x", "sources": [], "steps": [{"step": "extract"}]}, "sources"),
        ({"name": "x", "sources": [{"name": "a"}], "steps": [{"step": "extract"}]}, "sources.0.licence"),
        ({"name": "x", "sources": [SOURCE], "steps": [{"step": "extract", "colour": 1}]}, "colour"),
        ({"name": "x", "sources": [SOURCE, SOURCE], "steps": [{"step": "extract"}]}, "same name"),
        ({"name": "../x", "sources": [SOURCE], "steps": [{"step": "extract"}]}, "name"),
        (
            {
                "name": "x",
                "sources": [SOURCE],
                "steps": [{"step": "extract"}, {"step": "near", "threshold": 2}],
            },
            "threshold",
        ),
        (
            {
                "name": "x",
                "sources": [SOURCE],
                "steps": [{"step": "extract"}, {"step": "tokenise"}, {"step": "clean"}],
            },
            "tokenise must be the last step",
        ),
        (
            {
                "name": "x",
                "sources": [SOURCE],
                "steps": [{"step": "extract"}, {"step": "quality", "thresholds": {"zh": {"min_luck": 1}}}],
            },
            "no rule min_luck",
        ),
    ],
)
def test_a_wrong_recipe_is_refused_in_clear_words(value: Any, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_recipe(value)
    assert words in str(caught.value)


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe\x00", b"- x: *nowhere", b"[" * 10_000])
def test_an_unreadable_file_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="is not readable YAML"):
        load_recipe(path)


def test_thresholds_do_not_change_what_is_measured_but_settings_of_signals_do() -> None:
    one = recipe({"step": "extract"}, {"step": "near", "threshold": 0.7})
    other = recipe({"step": "extract"}, {"step": "near", "threshold": 0.9})
    shingle = recipe({"step": "extract"}, {"step": "near", "shingle": 3})
    assert one.signal_key() == other.signal_key() != shingle.signal_key()
    assert one.digest() != other.digest()


def test_a_threshold_of_the_recipe_wins_and_null_switches_a_rule_off() -> None:
    rule = next(rule for rule in RULES if rule.name == "min_units")
    step = Quality(thresholds={"zh": {"min_units": 99}, "en": {"min_units": None}})
    assert (step.threshold(rule, "zh"), step.threshold(rule, "en"), step.threshold(rule, "other")) == (
        99,
        None,
        50,
    )
    german = Quality(thresholds={"de": {"min_units": 70}, "zh-Hant": {"min_units": 5}})
    assert [german.threshold(rule, name) for name in ("de", "fr", "zh-Hant", "zh-Hans")] == [70, 50, 5, 10]
    with pytest.raises(ValidationError):
        Quality(thresholds={"French!": {}})


def test_every_rule_has_a_bound_somewhere_and_a_name_that_says_which() -> None:
    for rule in RULES:
        assert rule.name.startswith(f"{rule.bound}_")
        assert any(value is not None for value in (rule.en, rule.zh, rule.other))


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a/b.html", "**", True),
        ("a/b.html", "*", False),
        ("b.html", "*.html", True),
        ("a/b/c.html", "a/**/*.html", True),
        ("a/c.html", "a/**/*.html", True),
        ("a/b/c.html", "a/", True),
        ("ab/c.html", "a/", False),
        ("a/b/c.txt", "a/**/*.html", False),
        ("a/b/c", "a/*/c", True),
        ("a/b/x/c", "a/*/c", False),
    ],
)
def test_patterns(path: str, pattern: str, expected: bool) -> None:
    assert matches(path, pattern) is expected
