"""The steps clean and convert on a batch: order of repairs, what they store, what they leave."""

import pytest
from l3_ylink.datakit.documents.batch import Batch, Document
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.steps.clean import Clean, Convert


def batch_of(*texts: str) -> Batch:
    return Batch([Document(str(n), "s", f"{n}.txt", "text", text) for n, text in enumerate(texts)])


def test_damage_is_repaired_before_control_characters_go() -> None:
    right = "系统启动失败，请先查看日志。"
    batch = batch_of(right.encode().decode("latin-1"), right.encode("gbk").decode("latin-1"), right)
    Clean(step="clean").transform(batch)
    assert batch.texts == [right, right, right]
    assert batch.columns["mojibake_lines"] == [1, 1, 0]
    assert batch.columns["cleaned"] == [True, True, False]


def test_what_is_odd_in_a_text_is_stored() -> None:
    batch = batch_of("中國(guó)的電(diàn)腦(nǎo)", "a\u200bb\x07c\ue001", "ＡＢ①")
    Clean(step="clean").transform(batch)
    assert batch.texts == ["中國的電腦", "abc\ue001", "AB①"]
    assert batch.columns["pinyin_annotations"] == [3, 0, 0]
    assert batch.columns["zero_width_characters"] == [0, 1, 0]
    assert batch.columns["control_characters"] == [0, 1, 0]
    assert batch.columns["private_use_characters"] == [0, 1, 0]


def test_settings_switch_repairs_off_and_choose_the_form() -> None:
    text = "中國(guó)的電(diàn)腦(nǎo)①"
    batch = batch_of(text)
    Clean(step="clean", pinyin="off", form="NFKC").transform(batch)
    assert batch.texts == ["中國(guó)的電(diàn)腦(nǎo)1"]
    batch = batch_of(text)
    Clean(step="clean", mojibake=False).transform(batch)
    assert batch.texts == [text]


def test_conversion_comes_after_repair_in_a_recipe() -> None:
    pytest.importorskip("opencc")
    steps = [{"step": "extract"}, {"step": "clean"}, {"step": "convert", "to": "zh-Hans", "phrases": True}]
    recipe = parse_recipe({"name": "r", "sources": [{"name": "s", "licence": "CC0-1.0"}], "steps": steps})
    batch = batch_of("中國(guó)的電(diàn)腦(nǎo)軟體", "English stays")
    for step in recipe.steps[1:]:
        step.transform(batch)
    assert batch.texts == ["中国的电脑软件", "English stays"]
    assert batch.columns["converted"] == [True, False]
    assert isinstance(recipe.steps[2], Convert)
