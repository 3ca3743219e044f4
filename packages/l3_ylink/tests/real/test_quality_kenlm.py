"""Our ARPA read by kenlm: its query gives the values that ours gives."""

import random
from pathlib import Path

import numpy as np
import pytest
from l3_ylink.datakit.quality.arpa import write_arpa
from l3_ylink.datakit.quality.ngram_training import train
from l3_ylink.datakit.quality.sentences import sentence_starts, words_of
from l3_ylink.datakit.quality.units import split_units

pytestmark = pytest.mark.real


@pytest.mark.parametrize("order", [2, 3, 4])
def test_kenlm_gives_the_same_values(tmp_path: Path, order: int) -> None:
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed (it is built from source)")
    draw = random.Random(4)
    words = ["the", "cat", "saw", "a", "dog", "我", "们", "看", "见", "大", "山", "。", "and", "it", "ran"]
    texts = [" ".join(draw.choices(words, k=draw.randint(2, 12))) for _ in range(400)]
    model = train(lambda: texts, tmp_path / "model", order=order, most=400)
    write_arpa(model, tmp_path / "model.arpa")
    peer = kenlm.Model(str(tmp_path / "model.arpa"))
    for text in [*texts[:100], "words never seen 从 未", "the the cat"]:
        units = split_units([text])
        starts = np.flatnonzero(sentence_starts(units))[1:]
        expected = sum(
            peer.score(" ".join(part))
            for part in np.split(np.array(words_of(units, np.arange(len(units.start)))), starts)
        )
        assert model.score(units).log10[0] == pytest.approx(expected, abs=1e-3)
