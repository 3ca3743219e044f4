"""What the loss looks at: the assistant's words and the end of its turn, by the model's own template."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from l3_ylink._kit.documents import Producer, digest_of_file
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import DatasetManifest, Shard
from l3_ylink.ftkit.sft.rows import conversation, encode, encode_all, read_instructions

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
#: Shows only the last answer's reasoning, as several reasoning models' templates do.
REWRITES = (
    "{% for message in messages %}{% if message['role'] == 'assistant' and not loop.last %}[past]"
    "{% else %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)
ASK, ANSWER = {"role": "user", "content": "GPU 3 掉卡"}, {"role": "assistant", "content": "replace"}


def tokenizer(template: str = CHATML) -> Any:
    """Characters as tokens, so that what is learnt can be read."""
    transformers = pytest.importorskip(
        "transformers", reason="needs transformers: pip install 'l3-ylink[sft]'"
    )
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="?"))
    special = ["?", "<|im_start|>", "<|im_end|>"]
    text = ["abcdefghijklmnopqrstuvwxyz:[]\n 掉卡GPU3456789"]
    model.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    model.train_from_iterator(text, tokenizers.trainers.BpeTrainer(special_tokens=special, min_frequency=1))
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=model)
    wrapped.chat_template = template
    return wrapped


def learnt(made: Any, messages: list[dict[str, str]]) -> str:
    row = encode(made, messages)
    assert len(row.ids) == len(row.learn)
    return "".join(
        made.convert_ids_to_tokens([token])[0] for token, on in zip(row.ids, row.learn, strict=True) if on
    )


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([ASK, ANSWER], "replace<|im_end|>"),
        ([{"role": "system", "content": "be brief"}, ASK, ANSWER], "replace<|im_end|>"),
        ([ASK, ANSWER, ASK, {"role": "assistant", "content": "reset"}], "replace<|im_end|>reset<|im_end|>"),
        ([ASK, {"role": "assistant", "content": "user: no"}], "user: no<|im_end|>"),
        ([ASK], ""),
    ],
)
def test_only_the_assistants_words_and_the_end_of_its_turn_are_learnt(
    messages: list[dict[str, str]], words: str
) -> None:
    assert learnt(tokenizer(), messages) == words


def test_a_template_that_rewrites_earlier_turns_is_refused() -> None:
    made = tokenizer(REWRITES)
    assert learnt(made, [ASK, ANSWER]) == "replace"
    with pytest.raises(BadInput, match="renders a turn otherwise"):
        encode(made, [ASK, ANSWER, ASK, ANSWER])


def test_a_row_with_nothing_to_learn_is_refused_by_its_number() -> None:
    with pytest.raises(BadInput, match="row 2 has no token to learn from"):
        encode_all(tokenizer(), [[ASK, ANSWER], [ASK]], 500)


def test_rows_that_are_too_long_are_counted_and_all_too_long_is_refused() -> None:
    long = [{"role": "user", "content": "a" * 300}, ANSWER]
    rows, left_out = encode_all(tokenizer(), [[ASK, ANSWER], long], 200)
    assert (len(rows), left_out) == (1, 1)
    with pytest.raises(BadInput, match="longer than 5 tokens"):
        encode_all(tokenizer(), [[ASK, ANSWER]], 5)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "no messages"),
        (b'{"messages": []}', "no messages"),
        (b'{"messages": [{"role": "user"}]}', "needs role and content"),
        (b'{"messages": [{"role": "robot", "content": "x"}]}', "'robot' is unknown"),
        (b'{"instruction": "do", "output": 3}', "needs role and content"),
    ],
)
def test_a_broken_row_is_named(row: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        conversation(row, "train.jsonl line 7")
    assert refused.value.field == "train.jsonl line 7"


def test_alpacas_form_is_read_too() -> None:
    row = json.dumps({"instruction": "Sort", "input": "b a", "output": "a b"}).encode()
    assert conversation(row, "x") == [
        {"role": "user", "content": "Sort\n\nb a"},
        {"role": "assistant", "content": "a b"},
    ]


def manifest(folder: Path, lines: str, kind: str = "instructions") -> Path:
    (folder / "train.jsonl").write_text(lines, "utf-8")
    shard = Shard(
        uri="train.jsonl", sha256=digest_of_file(folder / "train.jsonl"), bytes=len(lines.encode()), rows=1
    )
    DatasetManifest(
        producer=Producer(name="test", version="1"),
        name="test",
        kind=kind,
        shards=[shard],
        rows=1,
        recipe_digest="sha256:" + "0" * 64,
    ).write(folder / "dataset-manifest.json")
    return folder


def test_the_rows_of_a_data_set_are_read_and_checked(tmp_path: Path) -> None:
    line = json.dumps({"messages": [ASK, ANSWER]}, ensure_ascii=False) + "\n"
    folder = manifest(tmp_path, line * 2)
    assert read_instructions(folder)[1] == [[ASK, ANSWER]] * 2
    (folder / "train.jsonl").write_text(line.replace("3", "4") * 2, "utf-8")
    with pytest.raises(BadInput, match="another SHA-256"):
        read_instructions(folder)


@pytest.mark.parametrize(
    ("lines", "kind", "words"), [("\n", "instructions", "no row"), ("", "tokens", "data set of tokens")]
)
def test_an_empty_data_set_and_one_of_another_kind_are_refused(
    tmp_path: Path, lines: str, kind: str, words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        read_instructions(manifest(tmp_path, lines, kind))


def test_tool_calls_are_learnt_and_the_tools_on_offer_are_seen() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "fans", "arguments": '{"node": 7}'}}
    row = {
        "messages": [
            ASK,
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "fan 3", "tool_call_id": "c"},
            ANSWER,
        ],
        "tools": [{"type": "function", "function": {"name": "fans"}}],
    }
    found = conversation(json.dumps(row).encode(), "x")
    made = tokenizer()
    made.chat_template = (
        "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{% for m in messages %}{{ m.role }}:"
        "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %};"
        "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
    )
    whole = made.apply_chat_template(list(found), tools=found.tools, tokenize=False)
    assert whole.startswith("fans;user:")
    ids, learn = encode(made, found).ids, encode(made, found).learn
    said = made.decode([token for token, on in zip(ids, learn, strict=True) if on])
    assert "".join(re.findall("[a-z0-9]", said)) == "node7replace"


def test_a_broken_tool_call_is_told() -> None:
    message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": "{"}}],
    }
    with pytest.raises(BadInput, match="a tool call has no name and JSON arguments"):
        conversation(json.dumps({"messages": [ASK, message]}).encode(), "x")
