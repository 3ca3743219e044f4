"""Sentences that the scheduler filled in, in Chinese."""

from __future__ import annotations

import re

import pytest
from l2_aistation.web.messages import MESSAGES
from l2_aistation.web.words import sentence


def chinese(text: str) -> str:
    return MESSAGES.get(text, text)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("needs 128 accelerators, free are 0", "需要 128 加速卡，空闲 0"),
        ("needs 16 H100 accelerators, free are 7.5", "需要 16 H100 加速卡，空闲 7.5"),
        (
            "queue gold has room for 4 accelerators under its cap, the job needs 8",
            "队列 gold 在上限内只剩 4 加速卡，作业需要 8",
        ),
        ("the next cycle looks at it", "下一次调度将处理它"),
        ("rank 3 ended on n7", "进程 3 在 n7 上结束"),
        ("gives its place to another tenant's job (reclaim)", "将位置让给 其他租户的作业（收回）"),
        ("node_lost: m3 replaced, ranks kept", "node_lost：m3 已替换，进程编号不变"),
        ("what the user wrote", "what the user wrote"),
        ("", ""),
    ],
)
def test_in_chinese(words: str, expected: str) -> None:
    assert sentence(chinese, words) == expected
    assert sentence(lambda text: text, words) == words


@pytest.mark.parametrize("template", [text for text in MESSAGES if "{" in text])
def test_every_reason_is_recognised_filled_in(template: str) -> None:
    values = {"needed": "12", "free": "3", "unit": "nodes", "of": "job-7"}
    said = sentence(chinese, template.format(**values))
    for name in re.findall(r"\{(\w+)\}", template):
        assert chinese(values[name]) in said
    assert re.search(r"[\u4e00-\u9fff]", said)
