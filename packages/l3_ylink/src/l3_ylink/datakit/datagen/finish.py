"""From a task to a row that can be kept: an answer, code that passes its tests, a judge's score."""

from __future__ import annotations

import ast

from pydantic import BaseModel, ConfigDict, Field

from l3_ylink._kit import sandbox

from .base import Made, Talk, Unfit
from .client import Message, ModelSpec
from .parse import code_blocks, score_in
from .prompts import prompt


class Judge(BaseModel):
    """Who judges and what is good enough."""

    model_config = ConfigDict(extra="forbid")

    model: ModelSpec | None = Field(None, description="another model than the one that answers")
    most: int = Field(10, ge=1, le=100)
    least: float = Field(7, ge=0)


class Verify(BaseModel):
    """Code is kept only if it passes tests that were written for it."""

    model_config = ConfigDict(extra="forbid")

    seconds: float = Field(10, gt=0, le=600)
    repairs: int = Field(1, ge=0, le=5, description="tries to mend code, told what failed")


def answered(made: Made, talk: Talk, verify: Verify | None) -> Made:
    """The row with an answer; `Unfit` where there is none that can be used."""
    if made.reason or made.messages[-1]["role"] == "assistant":
        return made
    if verify is None:
        return _with(made, talk.ask(made.messages))
    return _verified(made, talk, verify)


def _with(made: Made, answer: str) -> Made:
    return made._replace(messages=[*made.messages, {"role": "assistant", "content": answer}])


def _verified(made: Made, talk: Talk, verify: Verify) -> Made:
    task = made.messages[-1]["content"]
    asked: list[Message] = [{"role": "user", "content": prompt("code", talk.language, task=task)}]
    answer = talk.ask(asked)
    code = _code(answer)
    tests = _tests(talk.ask(prompt("tests", talk.language, task=task, names=_names(code))), verify)
    for number in range(verify.repairs + 1):
        why = sandbox.run(f"{code}\n\n{tests}\n", seconds=verify.seconds).why
        if not why:
            return _with(made._replace(meta={**made.meta, "tests": tests, "repairs": number}), answer)
        if number < verify.repairs:
            asked = [
                *asked,
                {"role": "assistant", "content": answer},
                {"role": "user", "content": prompt("repair", talk.language, error=why)},
            ]
            answer = talk.ask(asked)
            code = _code(answer)
    raise Unfit("tests_failed", why)


def _code(answer: str) -> str:
    code = "\n\n".join(code_blocks(answer))
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unfit("code_broken", f"{type(error).__name__}: {error}") from error
    if not any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body):
        raise Unfit("no_code", answer)
    return code


def _names(code: str) -> str:
    """The first lines of what the code defines."""
    heads = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return "\n".join(code.splitlines()[node.lineno - 1].strip() for node in heads)


def _tests(answer: str, verify: Verify) -> str:
    """The assertions of an answer; they must need the code: alone they must fail."""
    try:
        tree = ast.parse("\n\n".join(code_blocks(answer)) or answer)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unfit("tests_broken", f"{type(error).__name__}: {error}") from error
    kept = [node for node in tree.body if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom)]
    if not any(isinstance(node, ast.Assert) for node in kept):
        raise Unfit("no_tests", answer)
    tests = "\n".join(ast.unparse(node) for node in kept)
    if sandbox.run(tests, seconds=verify.seconds).passed:
        raise Unfit("tests_of_nothing", tests)
    return tests


def judged(made: Made, talk: Talk, judge: Judge) -> Made:
    """The row with its score; rejected below the least."""
    if made.reason:
        return made
    question = "\n".join(turn["content"] for turn in made.messages[:-1])
    quote = made.meta.get("quote")
    ground = prompt("ground", talk.language, quote=quote) if quote else ""
    answer = made.messages[-1]["content"]
    asked = prompt("judge", talk.language, most=judge.most, question=question, answer=answer, ground=ground)
    text = talk.ask(asked, cut=True, cold=True)
    score = score_in(text, judge.most)
    if score is None:
        return made.rejected("no_score", text)
    scored = made._replace(meta={**made.meta, "score": score})
    return scored if score >= judge.least else scored.rejected("judged_low", text)
