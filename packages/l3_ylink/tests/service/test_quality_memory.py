"""Memory of perplexity does not grow with rows (public complaint: data-juicer#474, 900 GB for 22 million)."""

import os
import random
import subprocess
import sys
from pathlib import Path

import orjson

SOAK = os.environ.get("OGAI_SOAK") == "1"
ROWS = (4_000, 400_000) if SOAK else (4_000, 24_000)
SCRIPT = """
import contextlib, os, resource, sys
from pathlib import Path
from l3_ylink.cli.quality import score_perplexity
from l3_ylink.datakit.quality.corpus import read_texts
from l3_ylink.datakit.quality.ngram_training import train
rows, model = Path(sys.argv[1]), Path(sys.argv[2])
train(lambda: read_texts([rows]), model, order=3, vocabulary=2_000, most=20_000, rows=100_000)
with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
    score_perplexity(model, rows, "text")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(folder: Path, count: int) -> int:
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefgh", k=5)) for _ in range(3_000)]
    source = folder / f"rows-{count}.jsonl"
    with open(source, "wb") as stream:
        texts = (" ".join(draw.choices(words, k=60)) for _ in range(count))
        stream.writelines(orjson.dumps({"text": text}) + b"\n" for text in texts)
    command = [sys.executable, "-c", SCRIPT, str(source), str(folder / f"model-{count}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    source.unlink()
    return int(done.stdout)


def test_training_and_scoring_need_the_same_memory_for_many_times_the_rows(tmp_path: Path) -> None:
    few, many = (peak(tmp_path, count) for count in ROWS)
    assert many < 1.2 * few
