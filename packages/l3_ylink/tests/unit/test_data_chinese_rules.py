"""Rules for Chinese pages: spam and menus go, poems and dialogue stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink.datakit.quality.chinese import fragments_reference
from l3_ylink.datakit.quality.rules import RULES
from l3_ylink.datakit.quality.signals import measure
from l3_ylink.datakit.quality.units import split_units

POEM = "《登鹳雀楼》\n作者：王之涣\n白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。"
BARE_VERSE = "白日依山尽\n黄河入海流\n欲穷千里目\n更上一层楼"
DIALOGUE = "“你去哪儿？”\n“去学校。”\n“这么早？”\n“今天有考试。”\n“那就快走吧。”"
MANUAL = (
    "名称\n       ls - 列出目录的内容\n描述\n       列出文件的信息，默认是当前目录。\n选项\n"
    "       -a 不隐藏以点开始的项目。"
)
MENU = "首页\n新闻中心\n产品\n关于\n联系我们\n招聘\n登录\n注册\n帮助\n网站首页"
CASINO = "澳门博彩公司注册送彩金，时时彩开奖结果天天更新，百家乐真人娱乐首存送彩金，点击购买。"


def broken_rules(text: str) -> list[str]:
    signals = measure(split_units([text]), [text])
    return [
        rule.name
        for rule in RULES
        if rule.rule_set in ("damage", "gopher_quality", "gopher_repetition", "chinese")
        and rule.zh is not None
        if (signals[rule.signal][0] < rule.zh if rule.bound == "min" else signals[rule.signal][0] > rule.zh)
    ]


@pytest.mark.parametrize("text", [POEM, BARE_VERSE, DIALOGUE, MANUAL])
def test_poems_dialogue_and_manual_pages_break_no_rule(text: str) -> None:
    assert broken_rules(text) == []


def test_a_gambling_page_and_a_menu_break_theirs() -> None:
    assert {"max_adverts", "max_advert_share"} <= set(broken_rules(CASINO))
    assert "max_fragment_lines" in broken_rules(MENU)


def test_words_of_spam_are_counted_once_and_never_over_each_other() -> None:
    signals = measure(
        split_units(["澳门博彩公司", "秒杀秒杀秒杀，全国包邮"]), ["澳门博彩公司", "秒杀秒杀秒杀，全国包邮"]
    )
    assert signals["adverts"].tolist() == [1, 2]
    assert (signals["advert_share"] <= 1).all()


@given(st.lists(st.text("白日依山尽，。“”abc \n", max_size=40), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_the_compiled_loop_agrees_with_plain_python(texts: list[str]) -> None:
    signals = measure(split_units(texts), texts)
    expected = [fragments_reference(text) if signals["han"][n] else 0.0 for n, text in enumerate(texts)]
    np.testing.assert_allclose(signals["fragment_lines"], expected, atol=1e-6)
