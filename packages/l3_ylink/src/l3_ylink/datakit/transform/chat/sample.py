"""A sample of fine-tuning in one form, OpenAI's messages, and the rules that it must keep.

Rules: at most one system message, and it comes first; then the user begins; an assistant ends.  Answers of
tools follow the calls that they answer, each by its id; when tools are offered, only those are called.  A
message is not empty, unless it calls tools.  Turns of one role in a row are joined by a blank line, or are
the reason to reject, or only the last one counts (`repeated`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from l3_ylink.datakit.purify.unicode import normalise

Message = dict[str, Any]
Repeated = Literal["join", "reject", "last"]
Kind = Literal["chat", "pair", "label"]

ROLES = {
    "system": "system",
    "developer": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
}


class RowError(Exception):
    """A row that cannot be used; the message is the reason that the rejects file names."""


@dataclass(frozen=True)
class Sample:
    """One sample.  `chat`: `messages` is all of it.  `pair` and `label`: `messages` is what was asked.

    A pair has `chosen` and `rejected` answers; a label has one `completion` and whether it was `good`.
    """

    id: str
    kind: Kind = "chat"
    messages: list[Message] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    chosen: list[Message] = field(default_factory=list)
    rejected: list[Message] = field(default_factory=list)
    completion: list[Message] = field(default_factory=list)
    good: bool = True
    merged: bool = False

    @property
    def answers(self) -> list[list[Message]]:
        """The alternatives that follow `messages`; one empty one for a chat."""
        if self.kind == "pair":
            return [self.chosen, self.rejected]
        return [self.completion]

    def example(self) -> list[Message]:
        """What there is to imitate: the chosen answer of a pair; a bad answer is none (`RowError`)."""
        if self.kind == "label" and not self.good:
            raise RowError("a bad answer is no example")
        return [*self.messages, *self.answers[0]]

    @property
    def characters(self) -> int:
        """Length of everything said."""
        said = [*self.messages, *self.chosen, *self.rejected, *self.completion]
        return sum(len(message["content"]) for message in said)


def validated(sample: Sample, repeated: Repeated = "join") -> Sample:
    """The sample with its turns in order; raises `RowError` with the reason when a rule is broken."""
    names = {_offered(tool) for tool in sample.tools}
    asked, merged = in_order(sample.messages, repeated)
    if sample.kind == "chat":
        _check(asked, names)
        return replace(sample, messages=asked, merged=merged)
    if not asked or asked[-1]["role"] == "assistant":
        raise RowError("the prompt does not end with a question")
    changes: dict[str, Any] = {}
    for name in {"pair": ("chosen", "rejected"), "label": ("completion",)}[sample.kind]:
        answer, again = in_order(getattr(sample, name), repeated)
        if not answer or answer[0]["role"] != "assistant":
            raise RowError(f"{name} does not begin with an assistant")
        _check([*asked, *answer], names)
        changes[name] = answer
        merged = merged or again
    if sample.kind == "pair" and _said(changes["chosen"]) == _said(changes["rejected"]):
        raise RowError("chosen and rejected are the same")
    return replace(sample, messages=asked, merged=merged, **changes)


def _said(messages: Sequence[Message]) -> bytes:
    calls = [[call["function"] for call in message.get("tool_calls", ())] for message in messages]
    return orjson.dumps([[message["content"] for message in messages], calls])


def _offered(tool: Any) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        raise RowError("a tool has no name")
    return name


def in_order(messages: Sequence[Message], repeated: Repeated) -> tuple[list[Message], bool]:
    """The messages with cleaned contents, repeated turns treated; and whether any were."""
    done: list[Message] = []
    merged = False
    for said in messages:
        content = normalise(said["content"], narrow=False).strip()
        if not content and not said.get("tool_calls") and said["role"] != "tool":
            raise RowError("empty message")
        if said["role"] == "system" and done:
            raise RowError("system message not first")
        message = {**said, "content": content}
        last = done[-1] if done else {"role": ""}
        if last["role"] != message["role"] or message["role"] == "tool" or "tool_calls" in last:
            done.append(message)
            continue
        if repeated == "reject":
            raise RowError("two turns of one role in a row")
        merged = True
        done[-1] = message if repeated == "last" else _joined(last, message)
    return done, merged


def _joined(first: Message, second: Message) -> Message:
    parts = [part for part in (first["content"], second["content"]) if part]
    return {**first, **second, "content": "\n\n".join(parts)}


def _check(messages: Sequence[Message], offered: set[str]) -> None:
    talk = [message["role"] for message in messages if message["role"] != "system"]
    if not talk or talk[0] != "user" or talk[-1] != "assistant":
        raise RowError("does not begin with a user and end with an assistant")
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise RowError("a tool answers no call")
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            raise RowError("a call has no answer")
        calls = message.get("tool_calls", ())
        waiting = [call["id"] for call in calls]
        if len(set(waiting)) < len(waiting):
            raise RowError("two calls have one id")
        if offered and any(call["function"]["name"] not in offered for call in calls):
            raise RowError("calls a tool that is not offered")


def as_call(name: Any, arguments: Any, mark: str) -> dict[str, Any]:
    """A tool call in OpenAI's form: arguments are the text of a JSON object."""
    if not isinstance(name, str) or not name:
        raise RowError("a tool call has no name")
    if isinstance(arguments, str):
        try:
            value = orjson.loads(arguments or "{}")
        except ValueError:
            raise RowError("arguments are not a JSON object") from None
    else:
        value = {} if arguments is None else arguments
    if not isinstance(value, dict):
        raise RowError("arguments are not a JSON object")
    return {
        "id": mark,
        "type": "function",
        "function": {"name": name, "arguments": orjson.dumps(value).decode()},
    }


def as_text(value: Any) -> str:
    """A content: text, or OpenAI's list of text parts; None is nothing."""
    if value is None:
        return ""
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, Mapping) else None for part in value]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise RowError("content other than text")
        return "".join(texts)
    if not isinstance(value, str):
        raise RowError("a field is not text")
    return value
