"""ARPA: the text format of n-gram models."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import numpy as np

from l3_ylink.datakit.documents.store import write_whole

from .perplexity import SPECIAL, Model


def write_arpa(model: Model, path: Path) -> None:
    """Writes the model in the ARPA format, which kenlm, SRILM and others read; whole or not at all."""

    def write(neighbour: Path) -> None:
        with open(neighbour, "w", encoding="utf-8") as stream:
            _write(model, stream)

    write_whole(path, write)


def _write(model: Model, stream: TextIO) -> None:
    words = [*SPECIAL, *model.vocabulary()]
    stream.write("\\data\\\n")
    stream.writelines(f"ngram {n}={count}\n" for n, count in enumerate(model.about["ngrams"], 1))
    mask = np.uint64((1 << model.bits) - 1)
    for n in range(1, model.order + 1):
        stream.write(f"\n\\{n}-grams:\n")
        table = model.table[model.first[n - 1] : model.first[n]]
        used = np.flatnonzero(table[:, 0])
        key = table[used, 0] - np.uint64(1)
        order = np.argsort(key)
        rows = table.view(np.float32)[used[order], 2:].tolist()
        numbers = np.stack(
            [(key[order] >> np.uint64(model.bits * place)) & mask for place in range(n - 1, -1, -1)], 1
        )
        for (probability, backoff), ngram in zip(rows, numbers.tolist(), strict=True):
            text = " ".join(words[number] for number in ngram)
            last = f"\t{backoff:.6g}" if n < model.order else ""
            stream.write(f"{probability:.7g}\t{text}{last}\n")
    stream.write("\n\\end\\\n")
