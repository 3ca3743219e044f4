"""Instruction sets: three forms in, OpenAI messages out, rejects with reasons."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.transform.instructions import parse_row, read_instructions

QUESTION, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


def parse(value: Any) -> tuple[list[tuple[str, str]], str]:
    row = parse_row(json.dumps(value).encode(), "1", 1000)
    return [(message["role"], message["content"]) for message in row.messages], row.reason


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [QUESTION, ANSWER]},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
        {"instruction": "q", "output": "a"},
        {"instruction": "q", "input": "", "output": "a"},
    ],
)
def test_the_three_forms_mean_the_same(value: dict[str, Any]) -> None:
    assert parse(value) == ([("user", "q"), ("assistant", "a")], "")


def test_alpacas_input_follows_the_instruction() -> None:
    assert parse({"instruction": "sum", "input": "1 2", "output": "3"})[0][0] == ("user", "sum\n\n1 2")


def test_two_turns_of_one_role_are_joined() -> None:
    # A frequent complaint about trainers that stop at such rows.
    assert parse({"messages": [QUESTION, {"role": "user", "content": "r"}, ANSWER]}) == (
        [("user", "q\n\nr"), ("assistant", "a")],
        "",
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"messages": [QUESTION]}, "does not begin with a user and end with an assistant"),
        ({"messages": [ANSWER, QUESTION, ANSWER]}, "does not begin with a user and end with an assistant"),
        ({"messages": []}, "does not begin with a user and end with an assistant"),
        ({"messages": [QUESTION, {"role": "robot", "content": "x"}]}, "unknown role"),
        ({"messages": [QUESTION, {"role": "assistant", "content": " \n"}]}, "empty message"),
        ({"messages": [QUESTION, {"role": "assistant", "content": None}]}, "a field is not text"),
        ({"messages": [QUESTION, ANSWER, {"role": "system", "content": "s"}]}, "system message not first"),
        ({"messages": [QUESTION, "a"]}, "a turn is not an object"),
        ({"text": "x"}, "unknown form"),
        ([1], "not an object"),
        ({"instruction": "q" * 2000, "output": "a"}, "too long"),
    ],
)
def test_a_reject_says_why(value: Any, reason: str) -> None:
    assert parse(value) == ([], reason)


@given(
    st.recursive(
        st.none() | st.text(max_size=5) | st.integers(),
        lambda x: (
            st.lists(x, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["messages", "role", "content", "conversations", "from", "value", "instruction", "output"]
                ),
                x,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_a_row_or_a_reject(value: Any) -> None:
    messages, reason = parse(value)
    assert bool(messages) != bool(reason)


def test_doubled_rows_and_broken_lines_are_rejected(tmp_path: Path) -> None:
    good = json.dumps({"messages": [QUESTION, ANSWER]})
    path = tmp_path / "set.jsonl"
    path.write_bytes(f"{good}\n\n{good}\n{{\n".encode() + b"\xff\n")
    assert [row.reason for row in read_instructions(path, 100)] == ["", "duplicate", "not JSON", "not JSON"]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot read the instruction set"):
        list(read_instructions(tmp_path / "none.jsonl", 100))
