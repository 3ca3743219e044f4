"""Chat templates: rendered as `transformers` does, in jinja's immutable sandbox, and where the model speaks.

What the loss looks at is found in one of two ways.  A template with `{% generation %}` says it itself.
For others a conversation is rendered up to each answer, with and without it: what comes in between is the
answer with the mark that ends it.  That needs a template that only appends; one that rewrites earlier turns
is a reason to reject the row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from l3_ylink._kit.problems import BadInput

from .sample import Message, RowError

OPEN, CLOSE = "\ufdd0", "\ufdd1"
"""Noncharacters that enclose what a template generates; no cleaned message has them."""

Span = tuple[int, int]


class Rendered(NamedTuple):
    """A conversation as text, and where in it the model speaks."""

    text: str
    spans: list[Span]


class Generation(jinja2.ext.Extension):
    """`{% generation %} … {% endgeneration %}` encloses what the model says."""

    tags = {"generation"}  # noqa: RUF012 (jinja declares it so)

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        """Marks the two ends of the block's output."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_marked")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _marked(self, caller: Callable[[], str]) -> str:
        return f"{OPEN}{caller()}{CLOSE}"


class ChatTemplate:
    """A model's chat template; `special` are variables such as `bos_token`, `now` is what it calls today."""

    def __init__(
        self, source: str, special: Mapping[str, str] | None = None, now: datetime | None = None
    ) -> None:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = (now or datetime.now()).strftime  # noqa: DTZ005 (local, as peers)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise BadInput(f"line {error.lineno}: {error.message}", field="chat_template") from error
        self.special = dict(special or {})
        self.marks_itself = "generation %}" in source or "generation -%}" in source

    def render(self, messages: Sequence[Message], tools: Sequence[Any] = (), *, ask: bool = False) -> str:
        """The conversation as text; with `ask` it ends where the model begins to speak."""
        return self._plain(messages, tools, ask=ask).replace(OPEN, "").replace(CLOSE, "")

    def _plain(self, messages: Sequence[Message], tools: Sequence[Any], *, ask: bool) -> str:
        try:
            return self._template.render(
                messages=[_parsed(message) for message in messages],
                tools=list(tools) or None,
                documents=None,
                add_generation_prompt=ask,
                **self.special,
            )
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise RowError(f"the template refuses: {error}") from error

    def spans(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> Rendered:
        """The conversation and where the model speaks; `RowError` when that cannot be told."""
        rendered = self._marked(messages, tools) if self.marks_itself else self._between(messages, tools)
        answers = [message for message in messages if message["role"] == "assistant"]
        if len(rendered.spans) != len(answers):
            raise RowError("the template does not mark every answer")
        for message, (start, end) in zip(answers, rendered.spans, strict=True):
            if message["content"] not in rendered.text[start:end]:
                raise RowError("an answer is not in its span")
        return rendered

    def _marked(self, messages: Sequence[Message], tools: Sequence[Any]) -> Rendered:
        pieces = self._plain(messages, tools, ask=False).split(OPEN)
        text, spans = pieces[0], []
        for piece in pieces[1:]:
            said, _, after = piece.partition(CLOSE)
            spans.append((len(text), len(text) + len(said)))
            text += said + after
        return Rendered(text, spans)

    def _between(self, messages: Sequence[Message], tools: Sequence[Any]) -> Rendered:
        whole = self.render(messages, tools)
        spans = []
        for number, message in enumerate(messages):
            if message["role"] == "assistant":
                before = self.render(messages[:number], tools, ask=True)
                upto = self.render(messages[: number + 1], tools)
                if not (upto.startswith(before) and whole.startswith(upto)):
                    raise RowError("the template rewrites earlier turns")
                spans.append((len(before), len(upto.rstrip())))
        return Rendered(whole, spans)


def load_template(folder: Path, now: datetime | None = None) -> ChatTemplate:
    """The template of a model's folder: `chat_template.jinja`, or in `tokenizer_config.json`."""
    config: dict[str, Any] = {}
    path = folder / "tokenizer_config.json"
    if path.exists():
        try:
            config = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise BadInput("is not JSON", field=str(path), why=str(error)) from error
    source = config.get("chat_template")
    if isinstance(source, list):
        source = next((one["template"] for one in source if one.get("name") == "default"), None)
    own = folder / "chat_template.jinja"
    if own.exists():
        source = own.read_text("utf-8")
    if not isinstance(source, str):
        raise BadInput("has no chat template", field=str(folder), do="add chat_template.jinja")
    return ChatTemplate(source, _special(config), now)


def _special(config: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token` and its like, given as text or as an object with `content`."""
    plain = {
        name: value["content"] if isinstance(value, dict) else value
        for name, value in config.items()
        if name.endswith("_token") and isinstance(value, str | dict)
    }
    return {name: value for name, value in plain.items() if isinstance(value, str)}


def _parsed(message: Message) -> Message:
    """Templates print arguments as JSON: they must get the object, its text would be quoted twice."""
    if not message.get("tool_calls"):
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """jinja's own filter escapes for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)
