"""The whole pipeline of a data run beside datatrove, near-duplicates beside text-dedup, workers and memory.

`python bench_data.py [--full] [--only NAME …]` prints one JSON list of rows.

`pipeline`: language (told, not chosen by), Gopher's rules with their English thresholds, MinHash with 14
bands of 8 rows over 5-grams, tokens by the same `tokenizer.json`; both sides read the same JSONL, ask the
same language model (CLD2 on the first 1,000 characters) and run with one worker.  `decisions`: the share of
documents of which both sides' rules decide the same when datatrove splits words as we do.  `near`: MinHash
and clusters alone.  `workers`: CPU seconds of two workers against one.  `memory`: the highest memory of all
processes over the corpus and over one several times as large, made of it by seeded edits.  Figures are CPU
seconds (user and system) of whole processes, start-up included, the calmest of some runs.  Texts are those
of `corpus.py`: beside peers each fifth (52 MB), or with `--full` all (260 MB; then the larger corpus has
5 GB); `workers` and `memory` always take all.  Peers have environments of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from l3_ylink.datakit.quality.rules import RULES

sys.path.insert(0, str(Path(__file__).parent))
from corpus import corpus  # type: ignore[import-not-found]

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai" / "bench"
DATATROVE, TEXT_DEDUP = "datatrove==0.10.1", "text-dedup==0.4.0"
PEERS = {
    "datatrove": [DATATROVE, "pycld2", "spacy", "tokenizers", "xxhash<4", "regex", "orjson"],
    "text-dedup": [TEXT_DEDUP],
}
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
}
FEWER = 5
LARGER, LARGEST = 4, 20
EDITED = 0.35
"""Share of the words of a copy that are changed: far below the similarity that makes a duplicate."""

OURS = """
import json, sys
from pathlib import Path
from l3_ylink.api import run_recipe
from l3_ylink.datakit.recipe import parse_recipe
if __name__ == "__main__":
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    workers, steps = int(sys.argv[3]), json.loads(sys.argv[4])
    files = [{"name": "s", "licence": "various", "include": ["*.jsonl"]}]
    recipe = parse_recipe({"name": "bench", "sources": files, "steps": steps})
    run_recipe(recipe, input_folder=source, out=out, workers=workers)
"""

THEIRS = """
import sys
import pycld2, regex
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline import dedup
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter, LambdaFilter
from datatrove.pipeline.filters import gopher_quality_filter, gopher_repetition_filter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer
from datatrove.pipeline.writers import JsonlWriter

HAN = r"\\u3005-\\u3007\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\U00020000-\\U0002ffff"
KANA = r"\\u3040-\\u30ff\\u31f0-\\u31ff\\uff66-\\uff9d"
WORD = r"[[\\p{L}\\p{N}\\p{M}]--[" + HAN + KANA + "]]"
OUR_WORDS = regex.compile(rf"(?V1)[{HAN}{KANA}]|{WORD}+(?:['\\u2019]{WORD}+)*")
CONTROL = regex.compile(r"[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ufdd0-\\ufdef\\ufffe\\uffff]")

def language(document):
    text = CONTROL.sub(" ", document.text[:1000]).encode("utf-8", "replace")
    document.metadata["language"] = pycld2.detect(text, bestEffort=True)[2][0][1]
    return True

def our_words(text, language=None):
    return OUR_WORDS.findall(text)

def write(folder):
    return JsonlWriter(folder, compression=None)

def main():
    source, out, tokenizer, splitter = sys.argv[1:5]
    if splitter == "ours":
        gopher_quality_filter.split_into_words = gopher_repetition_filter.split_into_words = our_words
    config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
    read = JsonlReader(source, glob_pattern="*.jsonl")
    stages = [
        [read, LambdaFilter(language), GopherRepetitionFilter(), GopherQualityFilter(), write(f"{out}/kept")],
        [JsonlReader(f"{out}/kept"), dedup.MinhashDedupSignature(f"{out}/signatures", config=config)],
        [dedup.MinhashDedupBuckets(f"{out}/signatures", f"{out}/buckets", config=config)],
        [dedup.MinhashDedupCluster(f"{out}/buckets", f"{out}/remove", config=config)],
        [JsonlReader(f"{out}/kept"), dedup.MinhashDedupFilter(f"{out}/remove"), write(f"{out}/final"),
         DocumentTokenizer(f"{out}/tokens", tokenizer_name_or_path=tokenizer, eos_token="<|endoftext|>",
                           local_working_dir=f"{out}/work", shuffle_documents=False)],
    ]
    for number, pipeline in enumerate(stages[:1] if splitter == "ours" else stages):
        tasks = config.num_buckets if number == 2 else 1
        LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, logging_dir=f"{out}/logs{number}").run()

if __name__ == "__main__":
    main()
"""

ENGLISH = {rule.name: rule.en for rule in RULES if rule.rule_set.startswith("gopher")}
GOPHER: list[dict[str, Any]] = [
    {"step": "extract"},
    {"step": "language", "keep": ["any"], "least_score": 0.0},
    {
        "step": "quality",
        "rules": ["gopher_quality", "gopher_repetition"],
        "thresholds": dict.fromkeys(("zh", "other"), ENGLISH),
    },
    {"step": "near"},
    {"step": "tokenise", "tokenizer": "tokenizer.json"},
]
NEAR: list[dict[str, Any]] = [{"step": "extract"}, {"step": "near"}]


def peer_python(name: str) -> Path:
    """The interpreter of a peer's environment, which is made when it is not there or incomplete."""
    folder = CACHE / name
    python, complete = folder / "bin" / "python", folder / "complete"
    packages = PEERS[name]
    if not complete.exists() or complete.read_text() != " ".join(packages):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, stdout=sys.stderr)
        complete.write_text(" ".join(packages))
    return python


def cpu_seconds(command: Sequence[str | Path]) -> float:
    """CPU seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment | ONE_THREAD, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def calmest(count: int, command: Callable[[Path], Sequence[str | Path]], out: Path) -> float:
    """The least CPU seconds of some runs, each into a fresh folder."""
    figures = []
    for _ in range(count):
        shutil.rmtree(out, ignore_errors=True)
        figures.append(cpu_seconds(command(out)))
    return min(figures)


def size_of(folder: Path) -> tuple[int, int]:
    """Bytes of text and documents of some JSONL files."""
    size = count = 0
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.open(encoding="utf-8"):
            count, size = count + 1, size + len(json.loads(line)["text"].encode())
    return size, count


class Bench:
    """The corpus in a folder of its own, with a tokenizer, and both sides' programs."""

    def __init__(self, scratch: Path, *, full: bool) -> None:
        self.scratch, self.full = scratch, full
        self.input = scratch / "in"
        self.input.mkdir()
        for path in corpus().glob("*.jsonl"):
            with path.open("rb") as lines, (self.input / path.name).open("wb") as stream:
                stream.writelines(islice(lines, 0, None, 1 if full else FEWER))
        self.bytes, self.documents = size_of(self.input)
        self.tokenizer = self.input / "tokenizer.json"
        self._train()
        (scratch / "ours.py").write_text(OURS)
        (scratch / "theirs.py").write_text(THEIRS)

    def whole(self) -> Path:
        """The large corpus, with the same tokenizer."""
        folder = self.scratch / "whole"
        if not folder.exists():
            shutil.copytree(corpus(), folder)
            (folder / "counts.json").unlink()
            shutil.copy(self.tokenizer, folder)
        return folder

    def _train(self) -> None:
        """A byte-level BPE of 32,000, as most models have, from some of the texts."""
        from tokenizers import ByteLevelBPETokenizer

        lines = [line for path in sorted(self.input.glob("*.jsonl")) for line in path.open(encoding="utf-8")]
        some = (json.loads(line)["text"] for line in lines[:: max(1, len(lines) // 600)])
        tokenizer = ByteLevelBPETokenizer()
        tokenizer.train_from_iterator(
            some, vocab_size=32_000, special_tokens=["<|endoftext|>"], show_progress=False
        )
        tokenizer.save(str(self.tokenizer))

    def ours(self, steps: list[dict[str, Any]], workers: int = 1, source: Path | None = None) -> Any:
        """The command of our side, given the folder to write to."""
        program, texts = self.scratch / "ours.py", source or self.input
        return lambda out: [sys.executable, program, texts, out, str(workers), json.dumps(steps)]

    def theirs(self, splitter: str = "own") -> Any:
        """The command of datatrove's side."""
        python, program = peer_python("datatrove"), self.scratch / "theirs.py"
        return lambda out: [python, program, self.input, out, self.tokenizer, splitter]

    def row(
        self, name: str, ours: float, peer: float, *, version: str, bar: float, how: str
    ) -> dict[str, Any]:
        """A row in which less is better, given as MB/s of one core."""
        size = self.bytes / 1e6
        return {
            "layer": "l3",
            "name": name,
            "ours": round(size / ours, 2),
            "peer": round(size / peer, 3),
            "peer_version": version,
            "ratio": round(peer / ours, 1),
            "unit": "MB/s of one core",
            "how": f"{self.documents} documents, {size:.1f} MB; {ours:.1f} against {peer:.1f} CPU s; {how}",
            "bar": bar,
            "ok": peer / ours >= bar,
        }


def pipeline(bench: Bench) -> list[dict[str, Any]]:
    """Speed of the whole pipeline, and how many filters' decisions are equal."""
    out = bench.scratch / "out"
    ours = calmest(3, bench.ours(GOPHER), out)
    kept = json.loads((out / "text/dataset-manifest.json").read_bytes())["rows"]
    peer = calmest(1, bench.theirs(), out)
    theirs = sum(len(path.read_text("utf-8").splitlines()) for path in (out / "final").glob("*.jsonl"))
    how = f"kept {kept} against {theirs} with its own word splitter"
    return [bench.row("data pipeline", ours, peer, version=DATATROVE, bar=20, how=how)]


def decisions(bench: Bench) -> list[dict[str, Any]]:
    """Documents of which Gopher's rules decide the same on both sides, with the same words."""
    import pyarrow.parquet as pq

    out = bench.scratch / "out"
    calmest(1, bench.theirs("ours"), out)
    theirs = {
        json.loads(line)["id"]
        for path in (out / "kept").glob("*.jsonl")
        for line in path.open(encoding="utf-8")
    }
    calmest(1, bench.ours(GOPHER), out)
    table = pq.ParquetFile(out / "decisions.parquet").read(columns=["id", "step"]).to_pylist()
    mine = {
        re.sub(r"^[^#]*\.jsonl#", "", row["id"])
        for row in table
        if row["step"] not in ("language", "quality", "extract")
    }
    every = {re.sub(r"^[^#]*\.jsonl#", "", row["id"]) for row in table}
    equal = len(every) - len(mine ^ theirs)
    return [
        {
            "layer": "l3",
            "name": "equal decisions of Gopher's filters",
            "ours": round(equal / len(every), 5),
            "peer": 1.0,
            "peer_version": DATATROVE,
            "ratio": round(equal / len(every), 5),
            "unit": "share of documents",
            "how": f"{len(every)} documents, {len(mine)} kept by ours, {len(theirs)} by theirs, same words",
            "bar": 0.995,
            "ok": equal / len(every) >= 0.995,
        }
    ]


def near(bench: Bench) -> list[dict[str, Any]]:
    """MinHash and clusters alone, beside text-dedup on the same documents."""
    whole = bench.scratch / "whole.jsonl"
    with whole.open("wb") as stream:
        for path in sorted(bench.input.glob("*.jsonl")):
            stream.write(path.read_bytes())
    python = peer_python("text-dedup")

    def theirs(out: Path) -> Sequence[str | Path]:
        given = f"--path json --data_files {whole} --split train --column text --num_proc 1 --num_perm 112"
        more = f"--b 14 --r 8 --ngram 5 --min_length 0 --cache_dir {out / 'cache'} --output {out / 'kept'}"
        return [python, "-m", "text_dedup.minhash", *given.split(), *more.split()]

    out = bench.scratch / "out"
    ours = calmest(3, bench.ours(NEAR), out)
    kept = json.loads((out / "text/dataset-manifest.json").read_bytes())["rows"]
    peer = calmest(1, theirs, out)
    how = f"112 permutations, 14 bands; ours reads JSONL, verifies each pair by its texts and writes {kept}"
    return [bench.row("MinHash and clusters", ours, peer, version=TEXT_DEDUP, bar=15, how=how)]


def workers(bench: Bench) -> list[dict[str, Any]]:
    """CPU seconds of two workers against one, and the wall time that they save."""
    out, source = bench.scratch / "out", bench.whole()
    cpu, wall = {}, {}
    for count in (1, 2):
        started = time.monotonic()
        cpu[count] = calmest(1, bench.ours(GOPHER, count, source), out)
        wall[count] = time.monotonic() - started
    ratio = cpu[2] / cpu[1]
    size = size_of(source)[0] / 1e6
    return [
        {
            "layer": "l3",
            "name": "CPU of two workers against one",
            "ours": round(cpu[2], 2),
            "peer": round(cpu[1], 2),
            "peer_version": "one worker",
            "ratio": round(ratio, 3),
            "unit": "CPU s",
            "how": f"{size:.0f} MB at {size / cpu[1]:.1f} MB/s of a core; wall {wall[1] / wall[2]:.2f} x",
            "bar": 1.1,
            "ok": ratio <= 1.1,
        }
    ]


def enlarge(source: Path, target: Path, times: int) -> None:
    """Copies of JSONL files whose texts differ by seeded edits, so that no copy is a duplicate."""
    target.mkdir()
    for copy in range(times):
        rng = random.Random(copy)
        for path in sorted(source.glob("*.jsonl")):
            with (
                path.open(encoding="utf-8") as lines,
                (target / f"{copy:03d}-{path.name}").open("w") as stream,
            ):
                for line in lines:
                    row = json.loads(line)
                    row["id"], row["text"] = (
                        f"{copy}/{row['id']}",
                        edited(row["text"], rng) if copy else row["text"],
                    )
                    stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def edited(text: str, rng: random.Random) -> str:
    """The text with some of its words (in Chinese: every few characters) made others."""
    step = max(1, round(1 / EDITED))
    first, mark = rng.randrange(step), rng.randrange(10**6)
    if len(text) > 4 * text.count(" ") * 6:
        other = [chr(0x4E00 + (ord(c) * 7 + mark) % 0x2000) if c.isalpha() else c for c in text[first::step]]
        characters = list(text)
        characters[first::step] = other
        return "".join(characters)
    words = text.split(" ")
    some = words[first::step]
    words[first::step] = [
        f"{word}{(mark + n) % 977}" if word.isalpha() else word for n, word in enumerate(some)
    ]
    return " ".join(words)


def peak_bytes(command: Sequence[str | Path]) -> int:
    """The highest sum of the resident memory (PSS) of a command and its children; a look each 0.1 s."""
    environment = os.environ | ONE_THREAD
    process = subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL)
    highest = 0
    while process.poll() is None:
        highest = max(highest, sum(_pss(pid) for pid in _family(process.pid)))
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    return highest


def _family(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [member for child in task.read_text().split() for member in _family(int(child))]
        except OSError:
            continue
    return found


def _pss(pid: int) -> int:
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def memory(bench: Bench) -> list[dict[str, Any]]:
    """The highest memory over the corpus and over a larger one."""
    times = LARGEST if bench.full else LARGER
    large, out = bench.scratch / "large", bench.scratch / "out"
    enlarge(bench.whole(), large, times)
    shutil.copy(bench.tokenizer, large)
    figures, sizes = [], []
    for source in (bench.whole(), large):
        shutil.rmtree(out, ignore_errors=True)
        figures.append(peak_bytes(bench.ours(GOPHER, 2, source)(out)) / 1e6)
        sizes.append(sum(path.stat().st_size for path in source.glob("*.jsonl")) / 1e6)
    ratio = figures[1] / figures[0]
    return [
        {
            "layer": "l3",
            "name": f"peak memory of {times} times the input",
            "ours": round(figures[1], 1),
            "peer": round(figures[0], 1),
            "peer_version": "the corpus once",
            "ratio": round(ratio, 3),
            "unit": "MB (PSS) of all processes, two workers",
            "how": f"{sizes[0]:.0f} MB against {sizes[1]:.0f} MB of JSONL",
            "bar": 1.2,
            "ok": ratio <= 1.2,
        }
    ]


PARTS = {"pipeline": pipeline, "decisions": decisions, "near": near, "workers": workers, "memory": memory}


def main() -> None:
    """Measures and prints the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all of the corpus beside peers: an hour")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        bench = Bench(Path(scratch), full=options.full)
        print(json.dumps([row for name in options.only for row in PARTS[name](bench)], indent=1))


if __name__ == "__main__":
    main()
