"""Chinese: damage repaired and clean text left alone (beside ftfy), pages and poems kept (datatrove).

`python bench_chinese.py [--small]` prints one JSON list of rows.  Clean text is what is Chinese in the
corpus of `corpus.py`.  A few lines of a document are damaged by a mechanism of `damage.py`, the document is
repaired, and its lines are compared with the clean ones.  "Exact" is a damaged line whose characters beyond
ASCII are all right (a reader that swallows half a character and the space after it takes the space for
good).  Rows say what is lost: a byte that a mark stands for has to be guessed, and the bar of 95 % holds
for it too.  ftfy repairs the same lines.  Documents kept: `language` and `quality` with their defaults
beside datatrove's Gopher filters with theirs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import damage
from bench_data import PEERS, peer_python
from corpus import corpus

SIMPLIFIED = ("debian-reference-zh-cn", "libreoffice-help-zh-cn", "maint-guide-zh-cn", "gimp-help-zh-cn")
TRADITIONAL = ("debian-reference-zh-tw", "libreoffice-help-zh-tw", "maint-guide-zh-tw")
CHINESE = (
    *SIMPLIFIED, *TRADITIONAL, "manpages-zh", "fortunes-zh", "lilypond-doc-html-zh", "debian-faq-zh-cn",
    "debian-edu-doc-zh-cn", "kicad-doc-zh", "debian-handbook", "installation-guide-amd64", "linux-doc-6.1",
)  # fmt: skip
DAMAGED_THERE = ("manpages-zh/usr/share/man/zh_CN/man8/iptables.8.gz",)
"""Pages that are damaged as they come (one paragraph a byte late): repaired, not counted."""

HAN, BEYOND = re.compile("[\u3400-\u9fff]"), re.compile("[\x00-\x7f]+")
LINES, SHARE = 200, 6
EXACT_BAR = 0.95
KEPT_BAR = 0.9
FTFY = "ftfy==6.3.1"
DATATROVE = PEERS["datatrove"][0]

THEIRS = """
import json, sys
from datatrove.data import Document
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter
quality, repetition = GopherQualityFilter(), GopherRepetitionFilter()
kept = 0
for line in open(sys.argv[1], encoding="utf-8"):
    row = json.loads(line)
    document = Document(text=row["text"], id=row["id"])
    kept += all(found is True for found in (repetition.filter(document), quality.filter(document)))
print(kept)
"""


def documents(names: tuple[str, ...], *, small: bool) -> list[dict[str, str]]:
    """Documents of some packages that are mainly Chinese."""
    found = []
    for name in names:
        path = corpus(small=small) / f"{name}.jsonl"
        for line in path.read_text("utf-8").split("\n") if path.exists() else ():
            row = json.loads(line) if line else {"text": ""}
            head = row["text"][:20_000]
            if len(HAN.findall(head)) > 0.15 * len(head) and "\ufffd" not in row["text"]:
                found.append(row)
    return found


def spoil(texts: list[str], mechanism: str, random: Random) -> list[tuple[list[str], dict[int, str]]]:
    """Documents as lines, each with the lines that were damaged; some hundred damaged lines in all."""
    made, spoilt = [], 0
    for text in texts:
        lines = text.split("\n")
        fit = [
            n for n, line in enumerate(lines) if 12 <= len(line.strip()) <= 120 and len(HAN.findall(line)) > 9
        ]
        random.shuffle(fit)
        hit = {}
        for number in fit[: max(1, min(6, len(fit) // SHARE))]:
            line = damage.MECHANISMS[mechanism](lines[number], random)
            if line is not None and line != lines[number]:
                hit[number] = line
        if hit:
            made.append((lines, hit))
            spoilt += len(hit)
        if spoilt >= LINES:
            break
    return made


def as_is(line: str) -> str:
    return BEYOND.sub("", line)


def repaired(texts: list[str], mechanism: str) -> dict[str, Any]:
    """How many damaged lines come back exactly, by ylink and by ftfy."""
    import ftfy
    from l3_ylink.datakit.purify.mojibake import repair

    made = spoil(texts, mechanism, Random(11))
    exact = theirs = count = harm = characters = right = 0
    few = few_exact = 0
    for lines, hit in made:
        after = repair("\n".join(hit.get(number, line) for number, line in enumerate(lines))).text.split("\n")
        for number, line in enumerate(lines):
            if number not in hit:
                harm += after[number] != line
                continue
            same = as_is(after[number]) == as_is(line)
            marks = len(re.findall("[?\ufffd]", hit[number])) - line.count("?")
            count += 1
            exact += same
            few += marks <= 2
            few_exact += same and marks <= 2
            theirs += as_is(ftfy.fix_text(hit[number], normalization=None)) == as_is(line)
            characters += len(as_is(line))
            right += _alike(as_is(after[number]), as_is(line))
    return {
        "count": count, "exact": exact / count, "theirs": theirs / count, "harm": harm,
        "right": right / characters, "few": few, "few_exact": few_exact / max(few, 1),
    }  # fmt: skip


def _alike(text: str, clean: str) -> int:
    import difflib

    blocks = difflib.SequenceMatcher(None, text, clean, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks)


def damage_rows(*, small: bool) -> list[dict[str, Any]]:
    """A row for each mechanism."""
    rows, random = [], Random(5)
    both = [row["text"] for row in documents(SIMPLIFIED + TRADITIONAL, small=small) if len(row["text"]) > 600]
    traditional = [row["text"] for row in documents(TRADITIONAL, small=small) if len(row["text"]) > 600]
    for texts in (both, traditional):
        random.shuffle(texts)
    for mechanism in damage.MECHANISMS:
        found = repaired(traditional if "pinyin" in mechanism else both, mechanism)
        how = (
            f"{found['count']} damaged lines in documents; characters right {found['right']:.3f}; "
            f"other lines changed {found['harm']}"
        )
        rows.append(row(f"lines exact: {mechanism}", found["exact"], found["theirs"], FTFY, how, EXACT_BAR))
        if found["few"] < found["count"]:
            name, how = f"of these with two marks at most: {mechanism}", f"{found['few']} lines"
            rows.append(row(name, found["few_exact"], found["theirs"], FTFY, how, EXACT_BAR))
    rows.append(annotation_row(traditional))
    return rows


def annotation_row(texts: list[str]) -> dict[str, Any]:
    """Pinyin left after characters, documents of some length each."""
    import ftfy
    from l3_ylink.datakit.purify.mojibake import repair

    random, left, made, same, theirs, count = Random(3), 0, 0, 0, 0, 0
    mark = re.compile(r"\([a-zü-ǜāáǎàēéěèīíǐìōóǒòūúǔù]+\)")
    for text in texts[:200]:
        spoilt = damage.annotate(text, random)
        if spoilt is None:
            continue
        after = repair(spoilt).text
        count += 1
        made += len(mark.findall(spoilt)) - len(mark.findall(text))
        left += max(0, len(mark.findall(after)) - len(mark.findall(text)))
        same += after == text
        theirs += ftfy.fix_text(spoilt, normalization=None) == text
    how = f"{made} annotations in {count} documents, {left} left; {same} documents as before to the character"
    return row("pinyin annotations removed", 1 - left / made, theirs / count, FTFY, how, 1.0)


def clean_row(*, small: bool) -> dict[str, Any]:
    """Clean text must stay: documents that repair changes."""
    from l3_ylink.datakit.purify.mojibake import repair

    rows = [entry for entry in documents(CHINESE, small=small) if entry["id"] not in DAMAGED_THERE]
    size = sum(len(entry["text"].encode()) for entry in rows)
    repair("浣犲ソ")
    begun = time.process_time()
    changed = [entry["id"] for entry in rows if repair(entry["text"]).text != entry["text"]]
    spent = time.process_time() - begun
    speed = f"{size / 1e6:.1f} MB, {size / 1e6 / spent:.1f} MB/s per core"
    how = f"{len(rows)} documents, {speed}; changed: {changed[:5]}"
    return {
        **row("clean documents changed by repair", len(changed), 0, "none", how, 0),
        "unit": "documents", "ok": not changed, "bar": "0", "peer": None, "ratio": None,
    }  # fmt: skip


def kept_rows(*, small: bool) -> list[dict[str, Any]]:
    """Clean pages and poems kept by defaults."""
    rows = []
    for name, packages in (
        ("manual pages", ("manpages-zh", *SIMPLIFIED, *TRADITIONAL)),
        ("poems", ("fortunes-zh",)),
    ):
        entries = [
            entry for entry in documents(packages, small=small) if len(HAN.findall(entry["text"])) >= 16
        ]
        if not entries:  # the small corpus has no poems
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            (folder / "in").mkdir()
            with open(folder / "in" / "all.jsonl", "w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
            ours = kept_by_ours(folder)
            done = subprocess.run(
                [peer_python("datatrove"), "-c", THEIRS, folder / "in" / "all.jsonl"],
                capture_output=True,
                text=True,
                check=True,
            )
        theirs = int(done.stdout.split()[-1])
        how = f"{len(entries)} documents of 16 characters and more; kept {ours} and {theirs}"
        rows.append(
            row(f"clean {name} kept", ours / len(entries), theirs / len(entries), DATATROVE, how, KEPT_BAR)
        )
    return rows


def kept_by_ours(folder: Path) -> int:
    from l3_ylink.api import run_recipe
    from l3_ylink.datakit.recipe import parse_recipe

    steps = [{"step": name} for name in ("extract", "clean", "language", "quality")]
    recipe = parse_recipe({"name": "bench", "sources": [{"name": "s", "licence": "various"}], "steps": steps})
    run_recipe(recipe, input_folder=folder / "in", out=folder / "out", workers=1)
    return int(json.loads((folder / "out" / "text" / "dataset-manifest.json").read_bytes())["rows"])


def row(name: str, ours: float, theirs: float, peer: str, how: str, bar: float) -> dict[str, Any]:
    return {
        "layer": "l3", "name": f"Chinese: {name}", "ours": round(ours, 4), "peer": round(theirs, 4),
        "peer_version": peer, "ratio": round(ours / theirs, 2) if theirs else None, "unit": "share",
        "how": how, "bar": f">= {bar:g}", "ok": bool(ours >= bar),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="the small corpus")
    small = parser.parse_args().small
    rows = [*damage_rows(small=small), clean_row(small=small), *kept_rows(small=small)]
    json.dump(rows, sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    main()
