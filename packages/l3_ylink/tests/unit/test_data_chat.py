"""Samples in every form: read, checked, written, read again; a reject says why."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.transform.chat.convert import convert_samples
from l3_ylink.datakit.transform.chat.read import Read, read_sample, read_samples
from l3_ylink.datakit.transform.chat.sample import Sample
from l3_ylink.datakit.transform.chat.write import FORMS

QUESTION, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
SYSTEM = {"role": "system", "content": "s"}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def call(mark: str, name: str = "weather", arguments: Any = '{"city":"济南"}') -> dict[str, Any]:
    return {"id": mark, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*marks: str, content: str = "") -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": [call(mark) for mark in marks]}


def answer(mark: str, content: str = "sunny") -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": mark}


def calling(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {**ANSWER, "tool_calls": [call("c", name, arguments)]}


TOOLS: dict[str, Any] = {
    "messages": [QUESTION, calls("call_1", content="let me look"), answer("call_1"), ANSWER],
    "tools": [WEATHER],
}


def parse(value: Any, **more: Any) -> Read:
    return read_sample(json.dumps(value).encode(), "1", **more)


def said(value: Any, **more: Any) -> tuple[list[tuple[str, str]], str]:
    sample, reason = parse(value, **more)[1:]
    messages = [] if sample is None else sample.messages
    return [(message["role"], message["content"]) for message in messages], reason


def sample_of(value: Any) -> Sample:
    read = parse(value)
    assert read.sample is not None, read.reason
    return read.sample


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [QUESTION, ANSWER]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}, ANSWER]},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
        {"instruction": "q", "output": "a"},
        {"instruction": "q", "input": "", "output": "a"},
    ],
)
def test_the_forms_mean_the_same(value: dict[str, Any]) -> None:
    assert said(value) == ([("user", "q"), ("assistant", "a")], "")


def test_alpacas_input_follows_the_instruction_and_its_history_comes_before() -> None:
    row = {"instruction": "sum", "input": "1 2", "output": "3", "history": [["q", "a"]], "system": "s"}
    expected = [
        ("system", "s"),
        ("user", "q"),
        ("assistant", "a"),
        ("user", "sum\n\n1 2"),
        ("assistant", "3"),
    ]
    assert said(row) == (expected, "")


TWICE = {"messages": [SYSTEM, QUESTION, {"role": "user", "content": "r"}, ANSWER]}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("join", ([("system", "s"), ("user", "q\n\nr"), ("assistant", "a")], "")),
        ("last", ([("system", "s"), ("user", "r"), ("assistant", "a")], "")),
        ("reject", ([], "two turns of one role in a row")),
    ],
)
def test_two_turns_of_one_role(policy: Any, expected: Any) -> None:
    # LlamaFactory#2962: such a row killed the run.
    assert said(TWICE, repeated=policy) == expected


def test_a_row_with_an_unknown_role_is_rejected_alone(tmp_path: Path) -> None:
    # LlamaFactory#2529: an unknown role tag killed the run.
    path = tmp_path / "rows.jsonl"
    rows = [{"messages": [{"role": "robot", "content": "x"}, ANSWER]}, {"messages": [QUESTION, ANSWER]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [read.reason for read in read_samples(path)] == ["unknown role", ""]


NOT_IN_ORDER = "does not begin with a user and end with an assistant"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"messages": [QUESTION]}, NOT_IN_ORDER),
        ({"messages": [ANSWER, QUESTION, ANSWER]}, NOT_IN_ORDER),
        ({"messages": []}, NOT_IN_ORDER),
        ({"messages": [QUESTION, {"role": ["x"], "content": "x"}]}, "unknown role"),
        ({"messages": [QUESTION, {"role": "assistant", "content": " \n"}]}, "empty message"),
        ({"messages": [QUESTION, {"role": "assistant", "content": None}]}, "a field is not text"),
        ({"messages": [QUESTION, ANSWER, SYSTEM]}, "system message not first"),
        ({"messages": [QUESTION, "a"]}, "a turn is not an object"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, ANSWER]},
            "content other than text",
        ),
        ({"text": "x"}, "unknown form"),
        ([1], "not an object"),
        ({"instruction": "q" * 2000, "output": "a"}, "too long"),
        (
            {"instruction": "q", "output": "a", "history": ["x"]},
            "history is not a list of questions and answers",
        ),
        # tools
        ({"messages": [QUESTION, calls("c"), ANSWER]}, "a call has no answer"),
        ({"messages": [QUESTION, calls("c", "d"), answer("c"), ANSWER]}, "a call has no answer"),
        ({"messages": [QUESTION, calls("c"), answer("d"), ANSWER]}, "a tool answers no call"),
        ({"messages": [QUESTION, calls("c", "c"), answer("c"), ANSWER]}, "two calls have one id"),
        (
            {"messages": [QUESTION, {**ANSWER, "tool_calls": [call("c", "x")]}], "tools": [WEATHER]},
            "not offered",
        ),
        ({"messages": [QUESTION, calling("")]}, "a tool call has no name"),
        ({"messages": [QUESTION, calling("x", "[1]")]}, "not a JSON object"),
        ({"messages": [QUESTION, calling("x", "{")]}, "not a JSON object"),
        ({"messages": [{**QUESTION, "tool_calls": [call("c")]}, ANSWER]}, "not a list of an assistant"),
        ({"messages": [QUESTION, ANSWER], "tools": [{"type": "function"}]}, "a tool has no name"),
        ({"messages": [QUESTION, ANSWER], "tools": "{"}, "tools are not JSON"),
        (
            {"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "{"}]},
            "not JSON",
        ),
        # preferences
        ({"prompt": "q", "chosen": "a", "rejected": "a"}, "chosen and rejected are the same"),
        ({"prompt": [QUESTION, ANSWER], "chosen": "a", "rejected": "b"}, "does not end with a question"),
        ({"prompt": "q", "chosen": "", "rejected": "b"}, "empty message"),
        ({"prompt": "q", "chosen": [QUESTION], "rejected": "b"}, "chosen does not begin with an assistant"),
        ({"prompt": "q", "completion": 3, "label": True}, "a turn is not an object"),
    ],
)
def test_a_reject_says_why(value: Any, reason: str) -> None:
    read = parse(value, longest=1000)
    assert read.sample is None
    assert reason in read.reason


def test_tool_calls_of_the_old_form_get_ids() -> None:
    old = {
        "messages": [
            QUESTION,
            {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}},
            {"role": "function", "name": "weather", "content": "sunny"},
            ANSWER,
        ]
    }
    messages = sample_of(old).messages
    assert messages[1]["tool_calls"] == [call("call_1", arguments="{}")]
    assert messages[2]["tool_call_id"] == "call_1"


def test_sharegpts_calls_and_observations() -> None:
    row = {
        "system": "s",
        "tools": json.dumps([WEATHER["function"]]),
        "conversations": [
            {"from": "human", "value": "q"},
            {"from": "gpt", "value": "let me look"},
            {"from": "function_call", "value": '{"name": "weather", "arguments": {"city": "济南"}}'},
            {"from": "observation", "value": "sunny"},
            {"from": "gpt", "value": "a"},
        ],
    }
    sample = sample_of(row)
    assert sample.messages == [SYSTEM, *TOOLS["messages"]]
    assert (sample.tools, sample.merged) == ([WEATHER], False)


PAIRS: list[dict[str, Any]] = [
    {"prompt": "q", "chosen": "a", "rejected": "b"},
    {"prompt": [QUESTION], "chosen": [ANSWER], "rejected": [{"role": "assistant", "content": "b"}]},
    {"chosen": [QUESTION, ANSWER], "rejected": [QUESTION, {"role": "assistant", "content": "b"}]},
    {
        "conversations": [{"from": "human", "value": "q"}],
        "chosen": {"from": "gpt", "value": "a"},
        "rejected": {"from": "gpt", "value": "b"},
    },
    {"instruction": "q", "input": "", "chosen": "a", "rejected": "b"},
    {
        "input": {"messages": [QUESTION]},
        "preferred_output": [ANSWER],
        "non_preferred_output": [{"role": "assistant", "content": "b"}],
    },
]


@pytest.mark.parametrize("value", PAIRS)
def test_pairs_of_every_form_mean_the_same(value: dict[str, Any]) -> None:
    assert sample_of(value) == sample_of(PAIRS[0])
    assert sample_of(value).chosen == [ANSWER]


@pytest.mark.parametrize(
    "value",
    [
        {"prompt": "q", "completion": "a", "label": False},
        {"prompt": [QUESTION], "completion": [ANSWER], "label": False},
        {"messages": [QUESTION, ANSWER], "label": False},
        {"instruction": "q", "output": "a", "kto_tag": False},
    ],
)
def test_labels_of_every_form_mean_the_same(value: dict[str, Any]) -> None:
    sample = sample_of(value)
    assert (sample.kind, sample.messages, sample.completion, sample.good) == (
        "label",
        [QUESTION],
        [ANSWER],
        False,
    )


def test_a_pair_gives_two_labels() -> None:
    rows = FORMS["kto"](sample_of(PAIRS[0]))
    assert [(row["id"], row["completion"][0]["content"], row["label"]) for row in rows] == [
        ("1+", "a", True),
        ("1-", "b", False),
    ]


WORDS = st.text("ab中\n🙂 ", min_size=1).map(str.strip).filter(bool)


@st.composite
def conversations(draw: Any, tools: bool) -> list[dict[str, Any]]:
    messages = [{"role": "system", "content": draw(WORDS)}] if draw(st.booleans()) else []
    mark = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(WORDS)})
        if tools and draw(st.booleans()):
            marks = [f"call_{mark + n + 1}" for n in range(draw(st.integers(1, 2)))]
            mark += len(marks)
            messages.append(calls(*marks, content=draw(st.just("") | WORDS)))
            messages += [answer(one, draw(st.just("") | WORDS)) for one in marks]
        messages.append({"role": "assistant", "content": draw(WORDS)})
    return messages


@settings(deadline=None)
@given(st.data(), st.sampled_from(["openai", "sharegpt", "alpaca"]))
def test_conversations_survive_a_round_trip(data: Any, form: str) -> None:
    tools = form != "alpaca"
    row: dict[str, Any] = {"id": "x", "messages": data.draw(conversations(tools))}
    if tools and data.draw(st.booleans()):
        row["tools"] = [WEATHER]
    sample = sample_of(row)
    written = FORMS[form](sample)
    assert [sample_of(value) for value in written] == [sample]


@settings(deadline=None)
@given(st.data(), st.sampled_from(["dpo", "openai-pairs", "kto"]))
def test_preferences_survive_a_round_trip(data: Any, form: str) -> None:
    asked = data.draw(conversations(tools=True))[:-1] or [QUESTION]
    row: dict[str, Any] = {"id": "x", "prompt": asked}
    if form == "kto":
        row |= {"completion": [ANSWER], "label": data.draw(st.booleans())}
    else:
        row |= {"chosen": [ANSWER], "rejected": [calls("call_99", content=data.draw(WORDS))]}
    sample = sample_of(row)
    assert [sample_of(value) for value in FORMS[form](sample)] == [sample]


FIELDS = (
    *("messages", "role", "content", "conversations", "from", "value", "instruction", "output", "tool_calls"),
    *("function", "name", "arguments", "tools", "prompt", "chosen", "rejected", "completion", "label", "id"),
    *("history", "input", "preferred_output", "function_call", "tool_call_id"),
)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.text(max_size=5) | st.integers() | st.booleans() | st.just(ANSWER),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(FIELDS),
                inner,
                max_size=5,
            )
        ),
        max_leaves=15,
    )
)
def test_any_json_is_a_sample_or_a_reject(value: Any) -> None:
    read = parse(value)
    assert (read.sample is None) != (read.reason == "")


def test_a_form_that_cannot_hold_a_sample_says_so(tmp_path: Path) -> None:
    rows = [
        TOOLS,
        {"messages": [QUESTION, ANSWER]},
        PAIRS[0],
        {"prompt": "q", "completion": "a", "label": False},
    ]
    source, rejects = tmp_path / "in.jsonl.gz", tmp_path / "rejects.jsonl"
    source.write_bytes(gzip.compress("\n".join([*map(json.dumps, rows), "{", ""]).encode()))
    found = {}
    for form in ("alpaca", "dpo", "kto"):
        found[form] = convert_samples(source, tmp_path / "out.jsonl", form, rejects=rejects).rejected
    assert found["alpaca"] == {
        "a bad answer is no example": 1,
        "not JSON": 1,
        "this form cannot hold tool calls": 1,
    }
    assert found["dpo"]["is a conversation, not a pair of answers"] == 2
    assert found["kto"] == {"is a conversation, not a judged answer": 2, "not JSON": 1}
    told = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [(row["line"], json.loads(row["original"])) for row in told[:2]] == [(1, TOOLS), (2, rows[1])]


def test_doubled_rows_and_broken_lines_are_rejected(tmp_path: Path) -> None:
    good = json.dumps({"messages": [QUESTION, ANSWER]})
    path = tmp_path / "set.jsonl"
    path.write_bytes(f"{good}\n\n{good}\n{{\n".encode() + b"\xff\n")
    assert [read.reason for read in read_samples(path)] == ["", "duplicate", "not JSON", "not JSON"]


def test_a_file_is_not_overwritten_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("{}")
    with pytest.raises(BadInput, match="would be overwritten"):
        convert_samples(path, path, "openai", rejects=tmp_path / "r.jsonl")
    with pytest.raises(BadInput, match="no form 'x'"):
        convert_samples(path, tmp_path / "y", "x", rejects=tmp_path / "r.jsonl")
    with pytest.raises(BadInput, match="cannot be read"):
        convert_samples(tmp_path / "none.jsonl", tmp_path / "y", "openai", rejects=tmp_path / "r.jsonl")
