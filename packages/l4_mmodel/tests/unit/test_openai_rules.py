"""OpenAI's request rules: what is refused, with which parameter named."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel.serving.openai import ApiError, check, text_of

CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT: dict[str, Any] = {"model": "m", "prompt": "hi"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"temperature": 0, "top_p": 1, "n": 2, "seed": -1, "stop": ["a", "b"], "stream": False},
        {"temperature": None, "stop": None, "max_tokens": None},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"logprobs": True, "top_logprobs": 20},
        {"logit_bias": {"50256": -100}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [{}]}, *CHAT["messages"]]},
    ],
)
def test_good_requests(more: dict[str, Any]) -> None:
    check({**CHAT, **more}, chat=True)


@pytest.mark.parametrize("prompt", ["a", ["a", "b"], [1, 2], [[1], [2, 3]]])
def test_good_prompts(prompt: Any) -> None:
    check({**TEXT, "prompt": prompt, "echo": True, "logprobs": 0, "max_tokens": 0}, chat=False)


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"model": None}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": [{"role": "boss", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 1.5}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": [1]}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"logprobs": 3}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"presence_penalty": 3}, "presence_penalty"),
    ],
)
def test_bad_requests_name_the_parameter(more: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        check({**CHAT, **more}, chat=True)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert set(caught.value.as_json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("prompt", [None, 3, [], [1.5], [[]], [["a"]], [-1], [True]])
def test_bad_prompts(prompt: Any) -> None:
    with pytest.raises(ApiError) as caught:
        check({**TEXT, "prompt": prompt}, chat=False)
    assert caught.value.param == "prompt"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        "model",
        "messages",
        "prompt",
        "n",
        "stop",
        "stream",
        "stream_options",
        "logprobs",
        "logit_bias",
        "seed",
        "x",
    ]
)


@given(JSON | st.dictionaries(NAMES, JSON), st.booleans())
def test_no_body_makes_it_fail_otherwise(body: Any, chat: bool) -> None:
    with contextlib.suppress(ApiError):
        check(body, chat=chat)


def test_pictures_are_refused_by_a_model_that_reads_text() -> None:
    assert text_of([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "ab"
    with pytest.raises(ApiError):
        text_of([{"type": "image_url", "image_url": {}}])
