"""Language, Gopher rules and MinHash over the same documents: ylink beside datatrove.

`python bench_data.py [--corpus FOLDER]` prints one JSON list of rows.  Both sides read the same JSONL, tell
the language with the same model (py3langid on the first 1,000 characters; ours asks it only where stop words
leave a doubt) and use the Gopher rules with their published
English thresholds, and MinHash with 14 bands of 8 rows over 5-grams.  Figures are CPU seconds (user and
system) of the whole process with one worker, start-up included.  datatrove runs in an environment of its
own, which is made on first use.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "integration_tests" / "demo" / "data"
PEER = "datatrove==0.10.1"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai" / "bench" / "datatrove"
BAR = 20.0

OURS = """
import sys
from pathlib import Path
from l3_ylink.api import run_recipe
from l3_ylink.datakit.recipe import parse_recipe
steps = [{"step": "extract"}, {"step": "language", "keep": ["en"], "least_score": 0.0},
         {"step": "quality", "rules": ["gopher_quality", "gopher_repetition"]}, {"step": "near"}]
recipe = parse_recipe({"name": "bench", "sources": [{"name": "s", "licence": "various"}], "steps": steps})
run_recipe(recipe, input_folder=Path(sys.argv[1]), out=Path(sys.argv[2]), workers=1)
"""

THEIRS = """
import sys
from pathlib import Path
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline import dedup
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.filters import GopherQualityFilter, GopherRepetitionFilter, LambdaFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

def write(folder):
    return JsonlWriter(folder, compression=None)

def main():
    source, out = sys.argv[1], sys.argv[2]
    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    english = LambdaFilter(lambda document: model.classify(document.text[:1000])[0] == "en")
    config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
    stages = [
        [JsonlReader(source), english, GopherRepetitionFilter(), GopherQualityFilter(), write(f"{out}/kept")],
        [JsonlReader(f"{out}/kept"), dedup.MinhashDedupSignature(f"{out}/signatures", config=config)],
        [dedup.MinhashDedupBuckets(f"{out}/signatures", f"{out}/buckets", config=config)],
        [dedup.MinhashDedupCluster(f"{out}/buckets", f"{out}/remove", config=config)],
        [JsonlReader(f"{out}/kept"), dedup.MinhashDedupFilter(f"{out}/remove"), write(f"{out}/final")],
    ]
    for number, pipeline in enumerate(stages):
        tasks = config.num_buckets if number == 2 else 1
        LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, logging_dir=f"{out}/logs{number}").run()

if __name__ == "__main__":
    main()
"""


def corpus(folder: Path, target: Path) -> tuple[int, int]:
    """Writes every readable document of a folder as JSONL; returns documents and bytes of text."""
    from l3_ylink.datakit.fileqa.extract import How, extract
    from l3_ylink.datakit.purify.unicode import normalise

    target.mkdir()
    count = size = 0
    with open(target / "corpus.jsonl", "w", encoding="utf-8") as stream:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            text = normalise(extract(path.name, path.read_bytes(), How("visible")).text)
            if text:
                row = {"id": path.relative_to(folder).as_posix(), "text": text}
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                count, size = count + 1, size + len(text.encode())
    return count, size


def peer_python() -> Path:
    """The interpreter of the peer's environment, which is made when it is not there or incomplete."""
    python, complete = CACHE / "bin" / "python", CACHE / "complete"
    packages = [PEER, "py3langid>=0.4,<1", "spacy", "tokenizers", "xxhash<4", "regex", "orjson"]
    if not complete.exists() or complete.read_text() != " ".join(packages):
        subprocess.run([sys.executable, "-m", "venv", CACHE], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, stdout=sys.stderr)
        complete.write_text(" ".join(packages))
    return python


def cpu_seconds(command: list[str | Path]) -> float:
    """CPU seconds of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best_of(count: int, command: list[str | Path], out: Path) -> float:
    """The calmest of some runs, each into a fresh folder."""
    figures = []
    for _ in range(count):
        shutil.rmtree(out, ignore_errors=True)
        figures.append(cpu_seconds([*command, out]))
    return min(figures)


def kept_by_ours(out: Path) -> int:
    return int(json.loads((out / "text" / "dataset-manifest.json").read_bytes())["rows"])


def kept_by_theirs(out: Path) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in (out / "final").glob("*.jsonl"))


def measure(folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        count, size = corpus(folder, place / "in")
        (place / "ours.py").write_text(OURS)
        (place / "theirs.py").write_text(THEIRS)
        ours = best_of(3, [sys.executable, place / "ours.py", place / "in"], place / "ours")
        theirs = best_of(1, [peer_python(), place / "theirs.py", place / "in"], place / "theirs")
        kept = f"kept {kept_by_ours(place / 'ours')} and {kept_by_theirs(place / 'theirs')}"
    return {
        "layer": "l3",
        "name": "data pipeline: language, Gopher rules, MinHash 14x8",
        "ours": round(size / 1e6 / ours, 3),
        "peer": round(size / 1e6 / theirs, 3),
        "peer_version": PEER,
        "ratio": round(theirs / ours, 1),
        "unit": "MB/s per core",
        "how": f"{count} documents, {size / 1e6:.1f} MB of text; CPU s {ours:.2f} and {theirs:.2f}; {kept}",
        "bar": f">= {BAR:g} x",
        "ok": theirs / ours >= BAR,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--corpus", type=Path, default=DEMO, help="folder of documents; the demo's by default"
    )
    print(json.dumps([measure(parser.parse_args().corpus)], ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
