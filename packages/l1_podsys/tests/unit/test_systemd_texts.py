"""Words and values survive systemd's own parsing (the real parser is asked in the real tests)."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st
from l1_podsys.core.planning.systemd import environment_file, quote_word, service_unit

ONE_LINE = st.text(
    st.characters(blacklist_categories=["Cc", "Cs"], blacklist_characters="\x85\u2028\u2029"), max_size=30
)


def unquote_word(text: str) -> list[str]:
    """What systemd.service(5) makes of a command line, for what quote_word writes."""
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(text)]


@given(st.lists(ONE_LINE.filter(lambda word: "\xa0" not in word), min_size=1, max_size=4))
def test_words_come_back(words: list[str]) -> None:
    assert unquote_word(" ".join(map(quote_word, words))) == words


@given(ONE_LINE)
def test_values_come_back(value: str) -> None:
    (line,) = environment_file({"A": value}).splitlines()
    body = line.removeprefix('A="').removesuffix('"')
    back, escaped = "", False
    for sign in body:
        if sign == "\\" and not escaped:
            escaped = True
            continue
        back, escaped = back + sign, False
    assert back == value


def test_a_unit_runs_what_the_profile_says() -> None:
    unit = service_unit(
        description="d",
        command=["/p", "-m", "a b"],
        environment="/e",
        user="u",
        restart_s=0.5,
        kill_mode="process",
    )
    assert "KillMode=process\n" in unit
    assert 'ExecStart=/p -m "a b"\n' in unit
    assert "EnvironmentFile=/e\n" in unit
    assert "RestartSec=0.5\n" in unit
