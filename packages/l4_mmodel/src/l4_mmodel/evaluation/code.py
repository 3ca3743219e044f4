"""Programs as answers: taken out of the text, put together with their tests, counted.  Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)


def program_of(question: str, text: str, tests: str, entry_point: str) -> str:
    """The program that decides: the answer's code, the tests, and their call.

    An answer is a whole program (fenced or not) where it defines the entry point; else it goes on
    where the question ends, as completions of HumanEval do (Chen et al. 2021).
    """
    fenced = FENCE.findall(text)
    code = "\n".join(fenced) if fenced else text
    whole = not entry_point or re.search(
        rf"^\s*(?:def|class)\s+{re.escape(entry_point)}\b", code, re.MULTILINE
    )
    parts = [_imports(question), code] if whole else [question + code]
    call = f"check({entry_point})" if entry_point and re.search(r"^def check\(", tests, re.MULTILINE) else ""
    return "\n".join([*parts, tests, call])


def _imports(question: str) -> str:
    """The imports above a question's function: an answer may rely on them."""
    found = re.findall(r"^(?:import|from)\s.*$", question, re.MULTILINE)
    return "\n".join(found)


def pass_at_k(n: int, passed: int, k: int) -> float:
    """The chance that one of k samples passes, unbiased, from n of which some passed (Chen et al. 2021)."""
    if not 1 <= k <= n:
        raise ValueError(f"k = {k} of {n} samples")
    return 1.0 - math.comb(n - passed, k) / math.comb(n, k)


def ks(samples: int, wanted: Sequence[int]) -> list[int]:
    """The values of k that so many samples allow."""
    return [k for k in wanted if k <= samples]
