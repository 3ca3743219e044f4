"""Quality rules as a table: which signal, which bound, for which kind of language, from which source.

A rule keeps a text when its signal is at or inside the bound.  There are three kinds of language: `en`,
`zh` (Chinese and Japanese, where a character is a unit) and `other` (every other language with words).
None means that the rule says nothing there.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["en", "zh", "other"]
RuleSet = Literal["damage", "gopher_quality", "gopher_repetition", "fineweb", "c4", "chinese"]


class Rule(NamedTuple):
    """A bound on one signal, by kind of language."""

    name: str
    rule_set: RuleSet
    signal: str
    bound: Literal["min", "max"]
    en: float | None
    zh: float | None
    other: float | None

    def threshold(self, kind: Kind) -> float | None:
        """The published bound for a kind of language."""
        return {"en": self.en, "zh": self.zh, "other": self.other}[kind]


RULES: tuple[Rule, ...] = (
    Rule("max_damaged_share", "damage", "damaged_share", "max", 0.005, 0.005, 0.005),
    Rule("min_units", "gopher_quality", "units", "min", 50, 10, 50),
    Rule("max_units", "gopher_quality", "units", "max", 100_000, 300_000, 100_000),
    Rule("min_mean_word_length", "gopher_quality", "mean_word_length", "min", 3, None, 2),
    Rule("max_mean_word_length", "gopher_quality", "mean_word_length", "max", 10, None, 16),
    Rule("max_hashes_per_unit", "gopher_quality", "hashes_per_unit", "max", 0.1, 0.1, 0.1),
    Rule("max_ellipses_per_unit", "gopher_quality", "ellipses_per_unit", "max", 0.1, 0.1, 0.1),
    Rule("max_bullet_lines", "gopher_quality", "bullet_lines", "max", 0.9, 0.9, 0.9),
    Rule("max_ellipsis_lines", "gopher_quality", "ellipsis_lines", "max", 0.3, 0.5, 0.3),
    Rule("min_alpha_units", "gopher_quality", "alpha_units", "min", 0.8, 0.7, 0.8),
    Rule("min_stop_words", "gopher_quality", "stop_words", "min", 2, None, None),
    Rule("max_repeated_paragraphs", "gopher_repetition", "repeated_paragraphs", "max", 0.30, 0.50, 0.30),
    Rule(
        "max_repeated_paragraph_characters",
        "gopher_repetition",
        "repeated_paragraph_characters",
        "max",
        0.20,
        0.45,
        0.20,
    ),
    Rule("max_repeated_lines", "gopher_repetition", "repeated_lines", "max", 0.30, 0.50, 0.30),
    Rule(
        "max_repeated_line_characters",
        "gopher_repetition",
        "repeated_line_characters",
        "max",
        0.20,
        0.45,
        0.20,
    ),
    Rule("max_top_2_gram", "gopher_repetition", "top_2_gram", "max", 0.20, 0.35, 0.20),
    Rule("max_top_3_gram", "gopher_repetition", "top_3_gram", "max", 0.18, 0.40, 0.18),
    Rule("max_top_4_gram", "gopher_repetition", "top_4_gram", "max", 0.16, 0.45, 0.16),
    Rule("max_repeated_5_grams", "gopher_repetition", "repeated_5_grams", "max", 0.15, 0.55, 0.15),
    Rule("max_repeated_6_grams", "gopher_repetition", "repeated_6_grams", "max", 0.14, 0.55, 0.14),
    Rule("max_repeated_7_grams", "gopher_repetition", "repeated_7_grams", "max", 0.13, 0.50, 0.13),
    Rule("max_repeated_8_grams", "gopher_repetition", "repeated_8_grams", "max", 0.12, 0.50, 0.12),
    Rule("max_repeated_9_grams", "gopher_repetition", "repeated_9_grams", "max", 0.11, 0.45, 0.11),
    Rule("max_repeated_10_grams", "gopher_repetition", "repeated_10_grams", "max", 0.10, 0.45, 0.10),
    Rule("min_ended_lines", "fineweb", "ended_lines", "min", 0.12, 0.05, 0.12),
    Rule("max_short_lines", "fineweb", "short_lines", "max", 0.67, None, 0.67),
    Rule("max_line_characters_again", "fineweb", "line_characters_again", "max", 0.01, 0.05, 0.01),
    Rule("max_newlines_per_unit", "fineweb", "newlines_per_unit", "max", 0.3, 0.3, 0.3),
    Rule("max_lorem_ipsum", "c4", "lorem_ipsum", "max", 0, 0, 0),
    Rule("max_curly_brackets", "c4", "curly_brackets", "max", 0, 0, 0),
    Rule("min_sentence_ends", "c4", "sentence_ends", "min", 5, 1, 5),
    Rule("min_han_share", "chinese", "han_share", "min", None, 0.15, None),
    Rule("max_adverts", "chinese", "adverts", "max", None, 2, None),
    Rule("max_advert_share", "chinese", "advert_share", "max", None, 0.05, None),
    Rule("max_fragment_lines", "chinese", "fragment_lines", "max", None, 0.85, None),
    Rule("max_units_per_mark", "chinese", "units_per_mark", "max", None, 150, None),
)

BY_NAME = {rule.name: rule for rule in RULES}


def kind_of(language: str) -> Kind:
    """The kind of language whose thresholds hold for `language` ("zh-Hans", "en", "de" …)."""
    if language.startswith(("zh", "ja", "yue")):
        return "zh"
    return "en" if language == "en" else "other"
