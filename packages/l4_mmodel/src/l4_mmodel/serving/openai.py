"""OpenAI's request rules and error form, checked without pydantic: this runs for every request.  Pure.

Source: OpenAI's API reference for chat completions, completions and errors.
"""

from __future__ import annotations

from typing import Any

STATUS_TYPES = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "invalid_request_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    500: "server_error",
    502: "server_error",
    503: "server_error",
}
MOST_CHOICES = 16
MOST_STOPS = 4
RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
WHOLE = {
    "n": (1, MOST_CHOICES),
    "max_tokens": (0, 1 << 20),
    "max_completion_tokens": (1, 1 << 20),
    "seed": (-(1 << 63), (1 << 63) - 1),
    "top_logprobs": (0, 20),
    "best_of": (1, MOST_CHOICES),
}
FLAGS = ("stream", "echo", "store", "parallel_tool_calls")
ROLES = {"system", "developer", "user", "assistant", "tool", "function"}


class ApiError(Exception):
    """An answer in OpenAI's error form: {"error": {message, type, param, code}}."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_s: float = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.retry_s = retry_s

    def as_json(self) -> dict[str, Any]:
        """The body."""
        kind = STATUS_TYPES.get(self.status, "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def bad(message: str, param: str, code: str | None = "invalid_value") -> ApiError:
    """A 400 about one parameter."""
    return ApiError(400, message, param=param, code=code)


def check(body: Any, *, chat: bool) -> None:
    """Raises `ApiError` for a body that breaks OpenAI's rules, and says which parameter."""
    if not isinstance(body, dict):
        raise ApiError(400, "The request's body must be a JSON object.", code="invalid_body")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise bad("You must provide a model parameter.", "model", "missing_required_parameter")
    if chat:
        _check_messages(body.get("messages"))
    else:
        _check_prompt(body.get("prompt"))
    for name, value in body.items():
        if value is not None:
            _check_value(name, value)
    _check_streaming(body)
    _check_logprobs(body, chat=chat)
    _check_stop(body.get("stop"))
    _check_bias(body.get("logit_bias"))


def _check_value(name: str, value: Any) -> None:
    if name in RANGES:
        low, high = RANGES[name]
        if type(value) not in (int, float) or not low <= value <= high:
            raise bad(f"'{name}' must be a number from {low} to {high}.", name)
    elif name in WHOLE:
        least, most = WHOLE[name]
        if type(value) is not int or not least <= value <= most:
            raise bad(f"'{name}' must be a whole number from {least} to {most}.", name)
    elif name in FLAGS and type(value) is not bool:
        raise bad(f"'{name}' must be true or false.", name, "invalid_type")


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise bad("'messages' must be a list with at least one message.", "messages")
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise bad(f"'{where}.role' must be one of {', '.join(sorted(ROLES))}.", f"{where}.role")
        content = message.get("content")
        calls = message["role"] == "assistant" and message.get("tool_calls")
        if not isinstance(content, str | list) and not (content is None and calls):
            raise bad(f"'{where}.content' must be text or a list of parts.", f"{where}.content")


def _check_prompt(prompt: Any) -> None:
    if isinstance(prompt, str):
        return
    if isinstance(prompt, list) and prompt:
        if all(type(token) is int and token >= 0 for token in prompt):
            return
        if all(isinstance(part, str) for part in prompt) and len(prompt) <= 2048:
            return
        if all(
            isinstance(part, list) and part and all(type(t) is int and t >= 0 for t in part)
            for part in prompt
        ):
            return
    raise bad("'prompt' must be text, token ids, or a list of either.", "prompt")


def _check_streaming(body: dict[str, Any]) -> None:
    options = body.get("stream_options")
    if options is None:
        return
    if not body.get("stream"):
        raise bad("'stream_options' is only allowed when 'stream' is true.", "stream_options")
    if not isinstance(options, dict) or type(options.get("include_usage", False)) is not bool:
        raise bad("'stream_options.include_usage' must be true or false.", "stream_options")


def _check_logprobs(body: dict[str, Any], *, chat: bool) -> None:
    value = body.get("logprobs")
    if chat:
        if value is not None and type(value) is not bool:
            raise bad("'logprobs' must be true or false.", "logprobs", "invalid_type")
        if body.get("top_logprobs") and not value:
            raise bad("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
    elif value is not None and (type(value) is not int or not 0 <= value <= 20):
        raise bad("'logprobs' must be a whole number from 0 to 20.", "logprobs")


def _check_stop(stop: Any) -> None:
    stops = [stop] if isinstance(stop, str) else stop
    if stops is None:
        return
    if (
        not isinstance(stops, list)
        or len(stops) > MOST_STOPS
        or not all(isinstance(s, str) and s for s in stops)
    ):
        raise bad(f"'stop' must be text or a list of at most {MOST_STOPS} texts.", "stop")


def _check_bias(bias: Any) -> None:
    if bias is None:
        return
    if not isinstance(bias, dict) or len(bias) > 1024:
        raise bad("'logit_bias' must map token ids to numbers.", "logit_bias")
    for token, value in bias.items():
        if not token.isdigit() or type(value) not in (int, float) or not -100 <= value <= 100:
            raise bad("'logit_bias' must map token ids to numbers from -100 to 100.", "logit_bias")


def text_of(content: Any) -> str:
    """The text of a message's content; parts other than text are refused."""
    if content is None or isinstance(content, str):
        return content or ""
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        raise bad("This model reads text only.", "messages", "unsupported_content")
    return "".join(str(part.get("text", "")) for part in content)


def most_tokens(body: dict[str, Any]) -> int | None:
    """The answer's limit, under its new name or its old one."""
    newer = body.get("max_completion_tokens")
    return body.get("max_tokens") if newer is None else newer
