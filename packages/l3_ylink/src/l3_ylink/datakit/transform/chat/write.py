"""Samples in the form that a trainer reads; what a form cannot hold is a reason to reject, never lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from .sample import Message, RowError, Sample

Row = dict[str, Any]


def to_openai(sample: Sample) -> list[Row]:
    """`messages` and `tools`; of a pair the chosen answer, of a label the completion if it was good."""
    return [{"id": sample.id, "messages": sample.example(), **_tools(sample)}]


def to_sharegpt(sample: Sample) -> list[Row]:
    """`conversations`, with `system` and `tools` (as JSON) beside them."""
    said = to_openai(sample)[0]["messages"]
    row: Row = {"id": sample.id, "conversations": [turn for message in said for turn in _turns(message)]}
    if said[0]["role"] == "system":
        row["system"] = said[0]["content"]
    if sample.tools:
        row["tools"] = orjson.dumps([tool["function"] for tool in sample.tools]).decode()
    return [row]


def _turns(message: Message) -> list[Row]:
    role = {"user": "human", "assistant": "gpt", "tool": "observation", "system": ""}[message["role"]]
    turns = [{"from": role, "value": message["content"]}] if role and message["content"] else []
    if message["role"] == "tool" and not turns:
        turns = [{"from": role, "value": ""}]
    if message.get("tool_calls"):
        calls = [
            {"name": call["function"]["name"], "arguments": orjson.loads(call["function"]["arguments"])}
            for call in message["tool_calls"]
        ]
        value = orjson.dumps(calls if len(calls) > 1 else calls[0]).decode()
        turns.append({"from": "function_call", "value": value})
    return turns


def to_alpaca(sample: Sample) -> list[Row]:
    """`instruction`, `input`, `output`; earlier turns as `history`."""
    said = to_openai(sample)[0]["messages"]
    if sample.tools or any(message["role"] == "tool" or "tool_calls" in message for message in said):
        raise RowError("this form cannot hold tool calls")
    system = [message["content"] for message in said if message["role"] == "system"]
    talk = [message["content"] for message in said if message["role"] != "system"]
    row: Row = {"id": sample.id, "instruction": talk[-2], "input": "", "output": talk[-1]}
    if len(talk) > 2:
        row["history"] = [list(pair) for pair in zip(talk[:-2:2], talk[1:-2:2], strict=True)]
    return [{**row, "system": system[0]} if system else row]


def to_dpo(sample: Sample) -> list[Row]:
    """`prompt`, `chosen`, `rejected` as messages."""
    _need(sample, "pair")
    row = {"prompt": sample.messages, "chosen": sample.chosen, "rejected": sample.rejected}
    return [{"id": sample.id, **row, **_tools(sample)}]


def to_openai_pairs(sample: Sample) -> list[Row]:
    """`input`, `preferred_output`, `non_preferred_output`: OpenAI's form of preferences."""
    _need(sample, "pair")
    return [
        {
            "id": sample.id,
            "input": {"messages": sample.messages, **_tools(sample)},
            "preferred_output": sample.chosen,
            "non_preferred_output": sample.rejected,
        }
    ]


def to_kto(sample: Sample) -> list[Row]:
    """`prompt`, `completion`, `label`; a pair gives two rows."""
    if sample.kind == "pair":
        answers = [(sample.chosen, True, "+"), (sample.rejected, False, "-")]
    else:
        _need(sample, "label")
        answers = [(sample.completion, sample.good, "")]
    return [
        {
            "id": sample.id + mark,
            "prompt": sample.messages,
            "completion": said,
            "label": good,
            **_tools(sample),
        }
        for said, good, mark in answers
    ]


def _need(sample: Sample, kind: str) -> None:
    if sample.kind != kind:
        names = {"chat": "a conversation", "pair": "a pair of answers", "label": "a judged answer"}
        raise RowError(f"is {names[sample.kind]}, not {names[kind]}")


def _tools(sample: Sample) -> Row:
    return {"tools": sample.tools} if sample.tools else {}


FORMS: dict[str, Callable[[Sample], list[Row]]] = {
    "openai": to_openai,
    "sharegpt": to_sharegpt,
    "alpaca": to_alpaca,
    "dpo": to_dpo,
    "openai-pairs": to_openai_pairs,
    "kto": to_kto,
}
"""Name of a form → what writes it."""
