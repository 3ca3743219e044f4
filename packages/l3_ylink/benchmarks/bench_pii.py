"""Personal data: speed on real text, and recall and precision on a labelled set, ylink beside presidio.

`python bench_pii.py [--small]` prints one JSON list of rows.  Speed is MB of UTF-8 text a CPU second, one
process, masking included, over the corpus of `corpus.py`; presidio reads a sample of the same documents
with its recognisers for mail, phone, card and IP address over a blank spaCy pipeline (the fastest it has).
The labelled set is made by `personal_set.py` from the standards; its texts are half Chinese and full of
things that only look like personal data.  presidio's recall counts only the kinds that it looks for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from corpus import CACHE, corpus
from personal_set import labelled

PEER = "presidio-analyzer==2.2.366"
SPEED_BAR, RECALL_BAR = 20.0, 0.98
SAMPLE_BYTES = 100_000
TEXTS = 20_000
PEER_TEXTS = 1_000
PEER_KINDS = {"EMAIL_ADDRESS": "email", "PHONE_NUMBER": "phone", "CREDIT_CARD": "card", "IP_ADDRESS": "ip"}

THEIRS = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
import spacy
from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
from presidio_analyzer.nlp_engine import SpacyNlpEngine
from presidio_analyzer.predefined_recognizers import (
    CreditCardRecognizer, EmailRecognizer, IpRecognizer, PhoneRecognizer)

class Blank(SpacyNlpEngine):
    def __init__(self):
        super().__init__()
        self.nlp = {"en": spacy.blank("en")}
    def load(self):
        pass

registry = RecognizerRegistry(recognizers=[CreditCardRecognizer(), EmailRecognizer(), IpRecognizer(),
    PhoneRecognizer(supported_regions=("CN", "US", "GB", "DE", "HK"))])
engine = AnalyzerEngine(registry=registry, nlp_engine=Blank(), supported_languages=["en"])
rows = json.load(sys.stdin)
engine.analyze("mail a@b.com", language="en")
begun = time.process_time()
for text in rows["speed"]:
    engine.analyze(text[:900_000], language="en")
spent = time.process_time() - begun
finds = [[[found.entity_type, found.start, found.end] for found in engine.analyze(text, language="en")]
         for text in rows["labelled"]]
print(json.dumps({"seconds": spent, "finds": finds}))
"""


def texts_of(folder: Path) -> list[str]:
    """All texts of the corpus."""
    texts = []
    for path in sorted(folder.glob("*.jsonl")):
        with open(path, encoding="utf-8") as stream:
            texts += [json.loads(line)["text"] for line in stream]
    return texts


def ours_speed(texts: list[str]) -> tuple[float, Counter[str]]:
    """MB a CPU second, and what was found."""
    from l3_ylink.datakit.purify.personal import mask

    mask("warm 1 up")
    counts: Counter[str] = Counter()
    begun = time.process_time()
    for text in texts:
        counts.update(mask(text)[1])
    spent = time.process_time() - begun
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) / 1e6 / spent, counts


def ours_finds(text: str) -> set[tuple[str, int, int]]:
    """What ylink finds in a text, with places in characters."""
    from l3_ylink.datakit.purify.personal import find

    data = text.encode()
    return {
        (found.kind, len(data[: found.start].decode()), len(data[: found.end].decode()))
        for found in find(data)
    }


def peer(speed: list[str], texts: list[str]) -> dict[str, Any]:
    """The peer's CPU seconds and finds, in an environment of its own."""
    folder = CACHE.parent / "presidio"
    python, complete = folder / "bin" / "python", folder / "complete"
    packages = [PEER, "spacy>=3.8,<4"]
    if not complete.exists() or complete.read_text() != " ".join(packages):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, stdout=sys.stderr)
        complete.write_text(" ".join(packages))
    done = subprocess.run(
        [python, "-c", THEIRS],
        input=json.dumps({"speed": speed, "labelled": texts}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the peer ended with {done.returncode}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def sample(texts: list[str]) -> list[str]:
    """Documents from all over the corpus, some 100 KB of them."""
    picked, size = [], 0
    for text in texts[:: max(1, len(texts) // 97)]:
        if size < SAMPLE_BYTES and len(text) < SAMPLE_BYTES // 4:
            picked.append(text)
            size += len(text.encode())
    return picked


def score(
    found: list[set[tuple[str, int, int]]], rows: list[dict[str, Any]], kinds: set[str]
) -> tuple[float, float, int]:
    """Recall, precision and how many were to be found: same kind, same place to the character."""
    gold = [{tuple(find) for find in row["finds"] if find[0] in kinds} for row in rows]
    right = sum(len(one & other) for one, other in zip(found, gold, strict=True))
    wanted, named = sum(map(len, gold)), sum(len(one) for one in found)
    return right / wanted, right / max(named, 1), wanted


def row(name: str, ours: float, theirs: float, unit: str, how: str, bar: str, ok: bool) -> dict[str, Any]:
    return {
        "layer": "l3", "name": f"personal data: {name}", "ours": round(ours, 4), "peer": round(theirs, 4),
        "peer_version": PEER, "ratio": round(ours / theirs, 2) if theirs else None, "unit": unit, "how": how,
        "bar": bar, "ok": bool(ok),
    }  # fmt: skip


def measure(*, small: bool) -> list[dict[str, Any]]:
    """All rows."""
    texts = texts_of(corpus(small=small))
    rows = labelled(TEXTS)
    speed, counts = ours_speed(texts)
    found = [ours_finds(entry["text"]) for entry in rows]
    recall, precision, wanted = score(found, rows, {kind for entry in rows for kind, *_ in entry["finds"]})
    some = sample(texts)
    answer = peer(some, [entry["text"] for entry in rows[:PEER_TEXTS]])
    size = sum(len(text.encode()) for text in some)
    peer_speed = size / 1e6 / answer["seconds"]
    theirs = [
        {(PEER_KINDS[kind], start, end) for kind, start, end in finds if kind in PEER_KINDS}
        for finds in answer["finds"]
    ]
    kinds = set(PEER_KINDS.values())
    peer_recall, peer_precision, _ = score(theirs, rows[:PEER_TEXTS], kinds)
    whole = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) / 1e6
    on_set = (
        f"{TEXTS} made texts, {wanted} finds of 7 kinds, same place to the character; "
        f"peer: its 4 kinds on {PEER_TEXTS}"
    )
    return [
        row("speed", speed, peer_speed, "MB/s per core",
            f"{whole:.1f} MB of real text, 7 kinds, masked; found {dict(counts)}; "
            f"peer: 4 kinds on {size} bytes of it",
            f">= {SPEED_BAR:g}", speed >= SPEED_BAR),
        row("recall", recall, peer_recall, "share", on_set, f">= {RECALL_BAR:g}", recall >= RECALL_BAR),
        row("precision", precision, peer_precision, "share", on_set, "reported", precision >= peer_precision),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="the small corpus")
    print(json.dumps(measure(small=parser.parse_args().small), ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
