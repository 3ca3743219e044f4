"""Rows in the usual forms become samples: OpenAI messages, ShareGPT, Alpaca, preference pairs, labels.

| form | recognised by |
|---|---|
| openai | `messages`, `tools`; tool calls also in the old `function_call` |
| sharegpt | `conversations` of `from` and `value`; `function_call`, `observation`; `system`, `tools` beside it |
| alpaca | `instruction`, `input`, `output`; `system`, `history` |
| pairs | `prompt`, `chosen`, `rejected` as text or messages (the prompt may be the common beginning); ShareGPT's and Alpaca's with `chosen` and `rejected`; `input`, `preferred_output`, `non_preferred_output` |
| labels | `prompt`, `completion`, `label`; `messages` or `conversations` with `label` or `kto_tag` |
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import xxhash

from l3_ylink.datakit.transform.rows import lines_of

from .sample import ROLES, Message, Repeated, RowError, Sample, as_call, as_text, validated

Row = Mapping[str, Any]


class Read(NamedTuple):
    """A row as it was, and its sample or the reason why there is none."""

    original: str
    sample: Sample | None = None
    reason: str = ""


def read_samples(path: Path, *, longest: int = 0, repeated: Repeated = "join") -> Iterator[Read]:
    """The rows of a JSONL file (plain, gz, zst); a row that was there before is rejected as `duplicate`."""
    seen: set[bytes] = set()
    for number, line in enumerate(lines_of(path), 1):
        read = read_sample(line, str(number), longest=longest, repeated=repeated)
        if read.sample is not None:
            mark = _mark(read.sample)
            if mark in seen:
                read = Read(read.original, reason="duplicate")
            seen.add(mark)
        yield read


def _mark(sample: Sample) -> bytes:
    said = [sample.messages, sample.chosen, sample.rejected, sample.completion, sample.good, sample.tools]
    return xxhash.xxh3_128_digest(orjson.dumps(said))


def read_sample(line: bytes, number: str, *, longest: int = 0, repeated: Repeated = "join") -> Read:
    """One row; `number` names it unless it has an `id`."""
    original = line.decode("utf-8", "replace").strip()
    try:
        value = orjson.loads(line)
        if not isinstance(value, dict):
            raise RowError("not an object")
        sample = validated(_sample(value, str(value.get("id", number))), repeated)
        if longest and sample.characters > longest:
            raise RowError("too long")
    except (RowError, ValueError) as error:
        reason = str(error) if isinstance(error, RowError) else "not JSON"
        return Read(original, reason=reason)
    return Read(original, sample)


def _sample(row: Row, mark: str) -> Sample:
    if "preferred_output" in row and isinstance(row.get("input"), dict):
        return _openai_pair(row, mark)
    tools = _tools(row.get("tools"))
    if "chosen" in row and "rejected" in row:
        return _pair(row, mark, tools)
    label = row.get("label", row.get("kto_tag"))
    if isinstance(label, bool):
        return _label(row, mark, tools, label)
    return Sample(mark, messages=_conversation(row), tools=tools)


def _conversation(row: Row) -> list[Message]:
    """The messages of a row in one of the three forms of conversations."""
    if isinstance(row.get("messages"), list):
        return openai_messages(row["messages"])
    if isinstance(row.get("conversations"), list):
        return _with_system(row, sharegpt_messages(row["conversations"]))
    if "instruction" in row and "output" in row:
        return [*_alpaca_question(row), {"role": "assistant", "content": _text(row["output"])}]
    raise RowError("unknown form")


def openai_messages(turns: Sequence[Any]) -> list[Message]:
    """OpenAI's messages; the old `function_call` and role `function` become calls with ids."""
    messages: list[Message] = []
    marks = count(1)
    for turn in turns:
        role = _role(turn, "role")
        calls = turn.get("tool_calls") or list(filter(None, [turn.get("function_call")]))
        if turn.get("content") is None and not calls:
            raise RowError("a field is not text")
        message: Message = {"role": role, "content": as_text(turn.get("content"))}
        if calls:
            if role != "assistant" or not isinstance(calls, list):
                raise RowError("tool calls are not a list of an assistant")
            message["tool_calls"] = [_call(call, marks) for call in calls]
        if role == "tool":
            message["tool_call_id"] = turn.get("tool_call_id") or _open_call(messages, turn.get("name"))
        messages.append(message)
    return messages


def _call(call: Any, marks: Iterator[int]) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise RowError("a tool call is not an object")
    function = call.get("function", call)
    if not isinstance(function, dict):
        raise RowError("a tool call is not an object")
    mark = call.get("id")
    return as_call(
        function.get("name"),
        function.get("arguments"),
        mark if isinstance(mark, str) and mark else f"call_{next(marks)}",
    )


def _open_call(messages: Sequence[Message], name: Any = None) -> str:
    """The id of the first call that has no answer yet, by name where one is given."""
    answered = {message.get("tool_call_id") for message in messages}
    for message in messages:
        for call in message.get("tool_calls", ()):
            if call["id"] not in answered and name in (None, call["function"]["name"]):
                return str(call["id"])
    raise RowError("a tool answers no call")


def sharegpt_messages(turns: Sequence[Any]) -> list[Message]:
    """ShareGPT's turns; what a model says before it calls is one message with the call."""
    messages: list[Message] = []
    marks = count(1)
    for turn in turns:
        if isinstance(turn, dict) and turn.get("from") == "function_call":
            calls = [as_call(*_named(call), f"call_{next(marks)}") for call in _calls(turn.get("value"))]
            last = messages[-1] if messages else None
            if last is not None and last["role"] == "assistant" and "tool_calls" not in last:
                last["tool_calls"] = calls
            else:
                messages.append({"role": "assistant", "content": "", "tool_calls": calls})
            continue
        role = _role(turn, "from")
        message: Message = {"role": role, "content": _text(turn.get("value"))}
        if role == "tool":
            message["tool_call_id"] = _open_call(messages)
        messages.append(message)
    return messages


def _calls(value: Any) -> list[Any]:
    try:
        found = orjson.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise RowError("a tool call is not JSON") from None
    return found if isinstance(found, list) else [found]


def _named(call: Any) -> tuple[Any, Any]:
    if not isinstance(call, dict):
        raise RowError("a tool call is not an object")
    return call.get("name"), call.get("arguments")


def _with_system(row: Row, messages: list[Message]) -> list[Message]:
    system = row.get("system")
    if isinstance(system, str) and system.strip():
        return [{"role": "system", "content": system}, *messages]
    return messages


def _alpaca_question(row: Row) -> list[Message]:
    parts = [_text(row["instruction"]), _text(row.get("input") or "")]
    messages: list[Message] = []
    history = row.get("history") or []
    for pair in history if isinstance(history, list) else [None]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise RowError("history is not a list of questions and answers")
        messages.append({"role": "user", "content": _text(pair[0])})
        messages.append({"role": "assistant", "content": _text(pair[1])})
    messages.append({"role": "user", "content": "\n\n".join(part for part in parts if part.strip())})
    return _with_system(row, messages)


def _pair(row: Row, mark: str, tools: list[Any]) -> Sample:
    chosen, rejected = _answer(row["chosen"]), _answer(row["rejected"])
    if "prompt" in row:
        asked = _prompt(row)
    elif isinstance(row.get("conversations"), list) or isinstance(row.get("messages"), list):
        asked = _conversation(row)
    elif "instruction" in row:
        asked = _alpaca_question(row)
    else:
        asked, chosen, rejected = _common(chosen, rejected)
    return Sample(mark, "pair", asked, tools, chosen=chosen, rejected=rejected)


def _openai_pair(row: Row, mark: str) -> Sample:
    asked = row["input"]
    if not isinstance(asked.get("messages"), list):
        raise RowError("unknown form")
    return Sample(
        mark,
        "pair",
        openai_messages(asked["messages"]),
        _tools(asked.get("tools")),
        chosen=_answer(row["preferred_output"]),
        rejected=_answer(row.get("non_preferred_output")),
    )


def _label(row: Row, mark: str, tools: list[Any], good: bool) -> Sample:
    if "prompt" in row:
        return Sample(
            mark, "label", _prompt(row), tools, completion=_answer(row.get("completion")), good=good
        )
    messages = _conversation(row)
    last = max((place for place, one in enumerate(messages) if one["role"] != "assistant"), default=-1)
    asked, said = messages[: last + 1], messages[last + 1 :]
    return Sample(mark, "label", asked, tools, completion=said, good=good)


def _prompt(row: Row) -> list[Message]:
    prompt = row["prompt"]
    messages = (
        openai_messages(prompt) if isinstance(prompt, list) else [{"role": "user", "content": _text(prompt)}]
    )
    return _with_system(row, messages)


def _answer(value: Any) -> list[Message]:
    """An answer as text, as one turn of OpenAI or ShareGPT, or as messages."""
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    turns = value if isinstance(value, list) else [value]
    if turns and all(isinstance(turn, dict) and "from" in turn for turn in turns):
        return sharegpt_messages(turns)
    return openai_messages(turns)


def _common(one: list[Message], other: list[Message]) -> tuple[list[Message], list[Message], list[Message]]:
    """Two whole conversations as their common beginning and what follows in each."""
    pairs = zip(one, other, strict=False)
    same = next(
        (place for place, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other))
    )
    return one[:same], one[same:], other[same:]


def _tools(value: Any) -> list[dict[str, Any]]:
    """Tool definitions in OpenAI's form, given as a list or as its JSON, with or without `function`."""
    if not value:
        return []
    try:
        found = orjson.loads(value) if isinstance(value, str) else value
    except ValueError:
        raise RowError("tools are not JSON") from None
    if not isinstance(found, list) or any(not isinstance(tool, dict) for tool in found):
        raise RowError("tools are not a list")
    return [tool if "function" in tool else {"type": "function", "function": tool} for tool in found]


def _role(turn: Any, field: str) -> str:
    if not isinstance(turn, dict):
        raise RowError("a turn is not an object")
    role = turn.get(field)
    if not isinstance(role, str) or role not in ROLES:
        raise RowError("unknown role")
    return ROLES[role]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise RowError("a field is not text")
    return value
