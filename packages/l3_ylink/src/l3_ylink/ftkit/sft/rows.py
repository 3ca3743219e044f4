"""Instruction rows as token ids with a mask: which tokens the loss looks at.

A conversation is rendered by the model's own chat template; the loss sees what the assistant says
and the token that ends its turn, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import DatasetManifest
from l3_ylink.trainkit.tokens import verify_shard

Message = dict[str, Any]
ROLES = ("system", "user", "assistant", "tool")


class Conversation(list[Message]):
    """Messages in their order; `tools` are the definitions of those that the assistant may call."""

    tools: list[Any] | None = None


@dataclass(frozen=True)
class Row:
    """Token ids of a conversation; `learn[i]` says whether token i is one that the assistant says."""

    ids: list[int]
    learn: list[bool]


def read_instructions(path: Path) -> tuple[DatasetManifest, list[Conversation]]:
    """The manifest (a file or its folder) and the conversations of its JSONL shards, digests checked."""
    file = path / "dataset-manifest.json" if path.is_dir() else path
    manifest = DatasetManifest.read(file)
    if manifest.kind != "instructions":
        raise BadInput(
            f"is a data set of {manifest.kind}, fine-tuning reads instructions",
            field="kind",
            do="give the folder of an instruction data set",
        )
    conversations: list[Conversation] = []
    for shard in manifest.shards:
        verify_shard(file.parent, shard)
        for number, line in enumerate((file.parent / shard.uri).read_bytes().splitlines(), start=1):
            if line.strip():
                conversations.append(conversation(line, f"{shard.uri} line {number}"))
    if not conversations:
        raise BadInput(
            "the data set has no row", field="data", do="look at what the recipe dropped: ylink data report"
        )
    return manifest, conversations


def conversation(line: bytes, where: str) -> Conversation:
    """One JSONL row as messages: OpenAI's form, or Alpaca's (instruction, input, output)."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadInput(f"is not JSON: {error}", field=where) from error
    if isinstance(row, dict) and isinstance(row.get("instruction"), str):
        asked = "\n\n".join(part for part in (row["instruction"], row.get("input", "")) if part)
        row = {
            "messages": [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": row.get("output")},
            ]
        }
    messages = row.get("messages") if isinstance(row, dict) else None
    if not isinstance(messages, list) or not messages:
        raise BadInput(
            "has no messages", field=where, do='write {"messages": [{"role": …, "content": …}, …]}'
        )
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("content"), str):
            raise BadInput("a message needs role and content", field=where)
        if message.get("role") not in ROLES:
            raise BadInput(
                f"role {message.get('role')!r} is unknown", field=where, do=f"use {', '.join(ROLES)}"
            )
    found = Conversation(_kept(message, where) for message in messages)
    found.tools = row.get("tools") or None
    return found


def _kept(message: Message, where: str) -> Message:
    """What a template reads of a message; it prints arguments as JSON and must get the object."""
    kept: Message = {name: message[name] for name in ("role", "content", "tool_call_id") if name in message}
    try:
        calls = [
            {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
            for call in message.get("tool_calls", ())
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput("a tool call has no name and JSON arguments", field=where) from error
    return {**kept, "tool_calls": calls} if calls else kept


def encode(tokenizer: Any, messages: Sequence[Message]) -> Row:
    """Renders a conversation with the tokenizer's chat template and marks the assistant's tokens.

    The template must be one in which a conversation's beginning renders to the beginning of the
    whole; one that rewrites earlier turns is refused, as masks would be wrong without a sign.
    """
    tools = getattr(messages, "tools", None)
    whole = rendered(tokenizer, messages, tools=tools)
    spans = assistant_spans(tokenizer, messages, whole, tools)
    encoded = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    learn = [
        end > start and any(start >= low and end <= high for low, high in spans)
        for start, end in encoded["offset_mapping"]
    ]
    return Row(list(encoded["input_ids"]), learn)


def rendered(
    tokenizer: Any, messages: Sequence[Message], *, ask: bool = False, tools: list[Any] | None = None
) -> str:
    """The conversation as text; with `ask` it ends where the assistant begins to speak."""
    text: str = tokenizer.apply_chat_template(
        list(messages), tools=tools, tokenize=False, add_generation_prompt=ask
    )
    return text


def assistant_spans(
    tokenizer: Any, messages: Sequence[Message], whole: str, tools: list[Any] | None = None
) -> list[tuple[int, int]]:
    """Where in `whole` the assistant speaks: with the mark that ends a turn, without white space after."""
    spans = []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = rendered(tokenizer, messages[:number], ask=True, tools=tools)
        upto = rendered(tokenizer, messages[: number + 1], tools=tools)
        if not (upto.startswith(before) and whole.startswith(upto)):
            raise BadInput(
                "the chat template renders a turn otherwise once others follow",
                field="chat_template",
                do="use a template that only appends, or rows with a single answer",
            )
        spans.append((len(before), len(upto.rstrip())))
    return spans


def encode_all(
    tokenizer: Any, conversations: Sequence[Sequence[Message]], longest: int
) -> tuple[list[Row], int]:
    """Every conversation that fits into `longest` tokens, and how many did not.

    A row from which nothing can be learnt is refused: training would look healthy and do nothing.
    """
    rows, too_long = [], 0
    for number, messages in enumerate(conversations, start=1):
        row = encode(tokenizer, messages)
        if not any(row.learn):
            raise BadInput(
                f"row {number} has no token to learn from",
                why="no assistant turn, or an empty one",
                field="data",
                do="remove the row, or give it an answer",
            )
        if len(row.ids) > longest:
            too_long += 1
        else:
            rows.append(row)
    if not rows:
        raise BadInput(
            f"every row is longer than {longest} tokens",
            field="max_length",
            do="raise --max-length or shorten the rows",
        )
    return rows, too_long
