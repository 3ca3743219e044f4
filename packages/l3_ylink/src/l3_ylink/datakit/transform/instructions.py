"""Instruction sets: Alpaca, ShareGPT and OpenAI messages become OpenAI messages; what is wrong is told.

Rules: at most one system message, first; then user and assistant in turn, beginning with a user and ending
with an assistant; two turns of one role in a row are joined by a blank line; no message is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import xxhash

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.purify.unicode import normalise

ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
}


class RowError(Exception):
    """A row that cannot be used; the message is the reason that the rejects file names."""


class Row(NamedTuple):
    """A row of an instruction file: its messages, or the reason why it was rejected."""

    id: str
    messages: list[dict[str, str]]
    reason: str = ""
    original: str = ""
    merged: bool = False


def read_instructions(path: Path, longest: int) -> Iterator[Row]:
    """The rows of a JSONL file, each valid or with a reason; a row that was there before is `duplicate`."""
    seen: set[str] = set()
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BadInput("cannot read the instruction set", field=str(path), why=str(error)) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = parse_row(line, str(number), longest)
        mark = xxhash.xxh3_128_hexdigest(orjson.dumps(row.messages))
        if not row.reason and mark in seen:
            row = row._replace(
                messages=[], reason="duplicate", original=line.decode("utf-8", "replace").strip()
            )
        seen.add(mark)
        yield row


def parse_row(line: bytes, number: str, longest: int) -> Row:
    """One row, in whichever of the three forms it is."""
    original = line.decode("utf-8", "replace").strip()
    try:
        value = orjson.loads(line)
    except ValueError:
        return Row(number, [], "not JSON", original)
    if not isinstance(value, dict):
        return Row(number, [], "not an object", original)
    mark = str(value.get("id", number))
    try:
        turns = _turns(value)
        messages, merged = _ordered(turns)
    except RowError as error:
        return Row(mark, [], str(error), original)
    if sum(len(message["content"]) for message in messages) > longest:
        return Row(mark, [], "too long", original)
    return Row(mark, messages, merged=merged)


def _turns(value: dict[str, Any]) -> list[tuple[str, str]]:
    if isinstance(value.get("messages"), list):
        return [_turn(turn, "role", "content") for turn in value["messages"]]
    if isinstance(value.get("conversations"), list):
        return [_turn(turn, "from", "value") for turn in value["conversations"]]
    if "instruction" in value and "output" in value:
        parts = [value["instruction"], value.get("input") or ""]
        if not all(isinstance(part, str) for part in (*parts, value["output"])):
            raise RowError("a field is not text")
        turns = [
            ("user", "\n\n".join(part for part in parts if part.strip())),
            ("assistant", value["output"]),
        ]
        system = value.get("system")
        return [("system", system), *turns] if isinstance(system, str) and system.strip() else turns
    raise RowError("unknown form")


def _turn(turn: Any, role: str, content: str) -> tuple[str, str]:
    if not isinstance(turn, dict):
        raise RowError("a turn is not an object")
    name, text = turn.get(role), turn.get(content)
    if name not in ROLES:
        raise RowError("unknown role")
    if not isinstance(text, str):
        raise RowError("a field is not text")
    return ROLES[name], text


def _ordered(turns: list[tuple[str, str]]) -> tuple[list[dict[str, str]], bool]:
    messages: list[dict[str, str]] = []
    merged = False
    for role, text in turns:
        content = normalise(text, narrow=False).strip()
        if not content:
            raise RowError("empty message")
        if role == "system" and messages:
            raise RowError("system message not first")
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += "\n\n" + content
            merged = True
        else:
            messages.append({"role": role, "content": content})
    talk = [message["role"] for message in messages if message["role"] != "system"]
    if not talk or talk[0] != "user" or talk[-1] != "assistant":
        raise RowError("does not begin with a user and end with an assistant")
    return messages, merged
