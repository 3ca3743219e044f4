"""Programs as answers: how they are put together, counted and kept in their box."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
from l4_mmodel._kit import sandbox
from l4_mmodel._kit.problems import Unavailable
from l4_mmodel.evaluation.code import pass_at_k, program_of

QUESTION = "from typing import List\n\ndef total(values: List[int]) -> int:\n    '''The sum.'''\n"
TESTS = "def check(candidate):\n    assert candidate([1, 2]) == 3\n    assert candidate([]) == 0\n"
boxed = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


@pytest.mark.parametrize(
    ("n", "passed", "k"), [(5, 2, 1), (5, 2, 2), (5, 2, 4), (6, 0, 3), (6, 6, 3), (1, 1, 1)]
)
def test_pass_at_k_is_the_share_of_draws_with_one_that_passes(n: int, passed: int, k: int) -> None:
    draws = list(itertools.combinations([True] * passed + [False] * (n - passed), k))
    assert pass_at_k(n, passed, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))


def test_more_than_there_are_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="k = 3 of 2"):
        pass_at_k(2, 1, 3)


@boxed
@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("    return sum(values)\n", True),
        (
            "Here it is:\n```python\ndef total(values: List[int]) -> int:\n    return sum(values)\n```\nOK.",
            True,
        ),
        ("def total(values):\n    return sum(values)", True),
        ("```\ndef total(values):\n    return sum(values)\n", True),  # cut off by the token limit
        ("    return max(values)\n", False),
        ("    return sum(values", False),
        ("    import sys; sys.exit(0)\n", False),
        ("    import os; os._exit(0)\n", False),
        ("", False),
    ],
)
def test_an_answer_passes_by_its_tests_alone(text: str, passed: bool) -> None:
    outcome = sandbox.run(program_of(QUESTION, text, TESTS, "total"), seconds=5)
    assert outcome.passed is passed, outcome.why
    assert passed or outcome.why


@boxed
@pytest.mark.parametrize(
    "attempt",
    [
        "import socket; socket.create_connection(('127.0.0.1', 22), 1)",
        "open('/usr/x', 'w')",
        "open('{secret}').read()",
        "import os; os.kill(1, 9); os.kill(os.getppid(), 9); raise SystemError('still there')",
        "x = bytearray(4 << 30)",
        "open('/tmp/big', 'wb').write(bytes(64 << 20))",
    ],
)
def test_a_program_reaches_nothing(attempt: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    outcome = sandbox.run(attempt.replace("{secret}", str(secret)), seconds=5)
    assert not outcome.passed


@boxed
def test_a_program_without_end_is_ended() -> None:
    assert sandbox.run("while True: pass", seconds=1).why == "did not end in 1 s"
    assert sandbox.run("import time; time.sleep(60)", seconds=1).why == "did not end in 1 s"


@boxed
def test_nothing_of_ours_is_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OGAI_SECRET", "hidden")
    assert sandbox.run(
        "import os; assert set(os.environ) <= {'PATH', 'HOME', 'PWD', 'LC_CTYPE'}", seconds=5
    ).passed


def test_without_a_box_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(Unavailable, match="bubblewrap"):
        sandbox.must_be_there()
