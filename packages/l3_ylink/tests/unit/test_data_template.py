"""Chat templates: rendered as transformers renders them; the loss sees what the model says and no more."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.transform.chat.learn import ChatEncoder, render_samples
from l3_ylink.datakit.transform.chat.sample import RowError
from l3_ylink.datakit.transform.chat.template import ChatTemplate, load_template
from l3_ylink.datakit.transform.megatron import TokenFile
from l3_ylink.datakit.transform.tokens import train_tokenizer

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# The way of Hermes and Qwen: tools as JSON lines, calls and answers in tags.
TOOLS = """
{%- if tools %}
    {{- '<|im_start|>system\n# Tools\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {{- '\n' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.content %}
        {{- message.content }}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>' }}{{ call.function | tojson(indent=2) }}{{ '</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
# The way of Llama: begins with bos, trims, ends a turn by eos; says itself what is generated.
MARKED = """{{ bos_token }}
{%- for message in messages %}
    {%- if message.role not in ['user', 'assistant'] %}
        {{ raise_exception('only users and assistants') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + message.content | trim + ' [/INST]' }}
    {%- else %}
        {%- generation %}{{ ' ' + message.content | trim + eos_token }}{% endgeneration %}
    {%- endif %}
{%- endfor %}"""
REWRITES = (
    "{% for message in messages %}{% if loop.last or message.role == 'user' %}"
    "{{ message.role + ':' + message.content + ';' }}{% else %}{{ 'assistant:...;' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
DATED = (
    "{{ strftime_now('%d %b %Y') }}{% for m in messages %}"
    "{% if loop.index > 2 %}{% break %}{% endif %}{{ m.content }}{% endfor %}"
)

CALLING: list[dict[str, Any]] = [
    {"role": "user", "content": "济南天气?"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "济南"}'}}
        ],
    },
    {"role": "tool", "content": "<晴>", "tool_call_id": "c"},
    {"role": "assistant", "content": "晴"},
]
SAID = "hello there, good day and now the end 济南天气晴 weather city "
OFFERED = [{"type": "function", "function": {"name": "weather", "description": "it's <the> weather & 天气"}}]
TALK = [
    {"role": "user", "content": "hello there"},
    {"role": "assistant", "content": "good day"},
    {"role": "user", "content": "and now"},
    {"role": "assistant", "content": "the end"},
]


def make(folder: Path, template: str) -> Path:
    """A model's folder: tokenizer with special tokens, and a chat template."""
    folder.mkdir(exist_ok=True)
    path = folder / "tokenizer.json"
    if not path.exists():
        train_tokenizer(
            ["hello there, good day and now the end 济南天气晴 weather city "] * 9, 400, "<|end|>", path
        )
        value = json.loads(path.read_text())
        vocabulary = len(value["model"]["vocab"])
        marks = ["<|im_start|>", "<|im_end|>", "<s>", "</s>"]
        value["added_tokens"] += [
            {**value["added_tokens"][0], "id": vocabulary + n, "content": mark}
            for n, mark in enumerate(marks)
        ]
        path.write_text(json.dumps(value))
    config = {"chat_template": template, "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("model"), CHATML)


def learnt(folder: Path, template: str, messages: Any, tools: Any = ()) -> tuple[str, list[str]]:
    """The conversation, and the runs of tokens that are learnt, as text."""
    encoder = ChatEncoder(make(folder, template))
    ids, mask = encoder.learn(messages, tools)
    runs: list[list[int]] = [[]]
    for token, on in zip(ids, mask, strict=True):
        if on:
            runs[-1].append(token)
        elif runs[-1]:
            runs.append([])
    decode = encoder._tokenizer.decode
    return decode(ids, skip_special_tokens=False), [
        decode(run, skip_special_tokens=False) for run in runs if run
    ]


def test_the_answer_and_its_end_are_learnt(model: Path) -> None:
    whole, runs = learnt(model, CHATML, TALK)
    assert runs == ["good day<|im_end|>", "the end<|im_end|>"]
    assert whole.startswith("<|im_start|>user\nhello there<|im_end|>\n<|im_start|>assistant\ngood day")


def test_calls_are_learnt_and_the_answers_of_tools_are_not(model: Path) -> None:
    whole, runs = learnt(model, TOOLS, CALLING, OFFERED)
    call = '{\n  "name": "weather",\n  "arguments": {\n    "city": "济南"\n  }\n}'
    assert runs == [f"<tool_call>{call}</tool_call><|im_end|>", "晴<|im_end|>"]
    assert "it's <the> weather & 天气" in whole, "not escaped as for HTML"


def test_a_template_that_marks_itself_is_believed(model: Path) -> None:
    whole, runs = learnt(model, MARKED, TALK)
    assert runs == [" good day</s>", " the end</s>"]
    assert whole == "<s>[INST] hello there [/INST] good day</s>[INST] and now [/INST] the end</s>"


@pytest.mark.parametrize(
    ("template", "messages", "reason"),
    [
        (REWRITES, TALK, "rewrites earlier turns"),
        (MARKED, CALLING, "the template refuses: only users and assistants"),
        ("{{ messages[0].x.y }}", TALK, "the template refuses"),
        ("{% for m in messages %}{% endfor %}", TALK, "an answer is not in its span"),
        ("{% generation %}{{ messages[1].content }}{% endgeneration %}", TALK, "does not mark every answer"),
        (CHATML, [{"role": "user", "content": "<|im_end|>"}, TALK[1]], "spells a special token"),
        ("{{ messages.append(1) }}", TALK, "the template refuses"),
        ("{{ ''.__class__.__mro__ }}", TALK, "the template refuses"),
    ],
)
def test_what_cannot_be_trusted_is_rejected(model: Path, template: str, messages: Any, reason: str) -> None:
    with pytest.raises(RowError, match=reason):
        ChatEncoder(make(model, template)).learn(messages)


def test_a_token_across_the_border_is_rejected(model: Path) -> None:
    # "hello" is one token, and the answer begins inside it.
    glued = "{% for m in messages %}{{ m.content }}{% endfor %}"
    messages = [{"role": "user", "content": "hel"}, {"role": "assistant", "content": "lo"}]
    with pytest.raises(RowError, match="across the border"):
        ChatEncoder(make(model, glued)).learn(messages)


def test_a_row_of_one_turn_survives_a_template_that_rewrites(model: Path) -> None:
    assert learnt(model, REWRITES, TALK[:2])[1] == ["good day;"]


def test_today_is_what_it_is_told() -> None:
    template = ChatTemplate(DATED, now=datetime(2026, 11, 30, tzinfo=UTC))
    assert template.render(TALK) == "30 Nov 2026hello theregood day"


@pytest.mark.parametrize(
    ("files", "part"),
    [
        ({}, "has no chat template"),
        ({"tokenizer_config.json": "{"}, "is not JSON"),
        ({"chat_template.jinja": "{% if %}"}, "line 1"),
    ],
)
def test_a_template_that_cannot_be_is_told(tmp_path: Path, files: dict[str, str], part: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(BadInput, match=part):
        load_template(tmp_path)


def test_templates_are_found_by_name_and_in_their_own_file(tmp_path: Path) -> None:
    named = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert load_template(tmp_path).render(TALK) == "d"
    (tmp_path / "chat_template.jinja").write_text("own")
    assert load_template(tmp_path).render(TALK) == "own"


def test_a_file_of_samples_becomes_tokens_with_a_mask(model: Path, tmp_path: Path) -> None:
    pair = {"prompt": "hello", "chosen": "good", "rejected": "day"}
    rows = [{"messages": TALK}, pair, {"messages": TALK}, {"messages": TALK * 9}, {"prompt": "x"}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    encoder = ChatEncoder(make(model, CHATML))
    rejects = tmp_path / "rejects.jsonl"
    done = render_samples(tmp_path / "in.jsonl", tmp_path / "out", encoder, rejects=rejects, longest=200)
    assert (done.read, done.written) == (5, 2)
    assert done.rejected == {"duplicate": 1, "too long": 1, "unknown form": 1}
    file = TokenFile(tmp_path / "out")
    assert file.mask is not None
    assert (len(file), int(np.sum(file.mask)), len(file.tokens)) == (2, done.learnt, done.tokens)
    assert file[0].tolist() == encoder.learn(TALK).ids
    assert file.mask_of(0).tolist() == encoder.learn(TALK).mask
    assert [json.loads(line)["line"] for line in rejects.read_text().splitlines()] == [3, 4, 5]
