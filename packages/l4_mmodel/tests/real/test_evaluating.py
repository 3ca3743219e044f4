"""Evaluation on a real runtime: right scores, resumed after a kill, refused where it would be chance."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from l4_mmodel.api import BadInput, EvalReport, Mmodel, Settings
from l4_mmodel.testing import write_manifest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.real


def write_suite(folder: Path, items: int, **more: Any) -> Path:
    rows = [
        {
            "id": f"i{n}",
            "question": f"question {n}",
            "choices": [f"first {n}", "second", "the third one"],
            "answer": n % 3,
        }
        for n in range(items)
    ]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    suite = {"name": "s", "seed": 3, "tasks": [{"name": "t", "data": "items.jsonl"}], **more}
    (folder / "suite.yaml").write_text(json.dumps(suite))
    return folder / "suite.yaml"


@pytest.fixture
def small(tmp_path: Path) -> Mmodel:
    return Mmodel(Settings(home=tmp_path / "home", dtype="float32", threads=1))


@pytest.mark.parametrize(("model", "count"), [("tiny_llama", 12), ("smollm2", 2)])
def test_packed_scores_are_the_plain_ones(model: str, count: int, request: pytest.FixtureRequest) -> None:
    from l4_mmodel.serving.runtimes.engine import Engine
    from l4_mmodel.serving.runtimes.packing import Tokens

    engine = Engine(request.getfixturevalue(model), threads=1, dtype="float32", context=512)
    try:
        assert engine.scorer.packed
        encode = engine.tokenizer.encode
        prompts = [f"Every prompt begins so. Question {n}: what colour is the sky?" for n in range(count)]
        choices = [[" blue", " green like grass", " 红色的", " a deep, dark purple"], [" yes", " no"]]
        items = [Tokens(encode(text), [encode(c) for c in choices[n % 2]]) for n, text in enumerate(prompts)]
        packed = engine.scorer.score(items)
        engine.scorer.packed = False
        plain = engine.scorer.score(items)
    finally:
        engine.close()
    for ours, theirs in zip(packed, plain, strict=True):
        for one, two in zip(ours, theirs, strict=True):
            assert one == pytest.approx(two, abs=1e-4)


def test_base_and_adapter_side_by_side(
    small: Mmodel, tiny_llama: Path, tiny_adapter: Path, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    more = {
        "latency": {"requests": 4, "max_tokens": 4},
        "stability": {"items": 2, "repeats": 2, "max_tokens": 4},
    }
    suite = write_suite(tmp_path, 12, **more)
    versions = [small.register(folder) for folder in (tiny_llama, tiny_adapter)]
    base, adapted = small.evaluate(suite, versions, out=tmp_path / "out")
    assert [metric.name for metric in base.metrics] == ["accuracy", "accuracy_norm"]
    assert all(metric.n == 12 and metric.low <= metric.value <= metric.high for metric in base.metrics)
    assert [row.name for row in base.latency] == ["time_to_first_token", "inter_token", "request"]
    assert all(0 <= row.p50_ms <= row.p90_ms <= row.p99_ms for row in base.latency)
    assert base.stability is not None
    assert (base.stability.equal_answers, base.stability.error_rate) == (1, 0)
    assert adapted.comparisons[0].baseline.digest == base.digest()
    assert adapted.inputs[0].digest == versions[1].digest
    written = EvalReport.read(tmp_path / "out" / "tiny-lora-1.eval-report.json")
    assert written.digest() == adapted.digest()
    again = small.evaluate(suite, versions)
    assert [report.digest() for report in again] == [base.digest(), adapted.digest()]
    promotion = small.promote("tiny-lora", "n >= 12 and error_rate == 0")
    assert promotion.promoted
    assert small.version("tiny-lora@production").id == versions[1].id
    assert not small.promote("tiny-lora", "accuracy > 1").promoted
    small.close()


EVALUATE = (
    "import sys; from l4_mmodel.api import *; "
    "Mmodel(Settings(home=sys.argv[1], dtype='float32', threads=1)).evaluate(sys.argv[2], ['tiny-llama'])"
)


def test_a_killed_evaluation_goes_on_where_it_was(small: Mmodel, tiny_llama: Path, tmp_path: Path) -> None:
    suite = write_suite(tmp_path, 400, latency={"requests": 30, "max_tokens": 8})
    small.register(tiny_llama)
    process = subprocess.Popen([sys.executable, "-c", EVALUATE, str(small.settings.home), str(suite)])
    folder = small.settings.state_dir / "evaluations" / "default"

    def lines() -> list[str]:
        return [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]

    while len(lines()) < 40:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = lines()[:-1]
    with open(next(folder.glob("*.jsonl")), "a", encoding="utf-8") as stream:
        stream.write('{"key": "item/t/i3')  # a line that the kill cut off
    (report,) = small.evaluate(suite, ["tiny-llama"])
    assert report.metrics[0].n == 400
    assert lines()[: len(kept)] == kept
    assert len({json.loads(line)["key"] for line in lines()}) == len(lines()) == 400 + 30 + 2
    small.close()


def test_a_lost_runtime_is_started_again(small: Mmodel, tiny_llama: Path, tmp_path: Path) -> None:
    suite = write_suite(tmp_path, 64)
    small.register(tiny_llama)
    killed: list[str] = []

    def progress(_ref: str, _what: str, done: int, _total: int) -> None:
        if done >= 16 and not killed:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            for pid in children:
                if b"transformers_server" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    killed.append(pid)
                    os.kill(int(pid), signal.SIGKILL)

    (report,) = small.evaluate(suite, ["tiny-llama"], progress=progress)
    assert killed
    assert report.metrics[0].n == 64
    small.close()


def test_a_generation_is_extracted_and_judged(small: Mmodel, tiny_llama: Path, tmp_path: Path) -> None:
    (tmp_path / "g.jsonl").write_text(json.dumps({"id": "a", "question": "2+2?", "answer": "#### 4"}))
    task = {
        "name": "g",
        "data": "g.jsonl",
        "kind": "generation",
        "extract": "gsm8k",
        "score": "number",
        "max_tokens": 4,
    }
    suite = tmp_path / "g.yaml"
    suite.write_text(json.dumps({"name": "g", "tasks": [task]}))
    small.register(tiny_llama)
    (report,) = small.evaluate(suite, ["tiny-llama"])
    assert (report.items[0].expected, report.metrics[0].n) == ("4", 1)
    assert report.items[0].latency_ms is not None
    small.close()


def test_programs_are_drawn_run_and_counted(small: Mmodel, tiny_llama: Path, tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap")
    row = {"id": "a", "question": "def f():\n", "answer": "def check(c): pass\n", "entry_point": "f"}
    (tmp_path / "code.jsonl").write_text(json.dumps(row))
    task = {
        "name": "code", "kind": "code", "data": "code.jsonl", "template": "plain", "max_tokens": 4,
        "samples": 3,
        "k": [1, 3], "temperature": 1.0,
    }  # fmt: skip
    (tmp_path / "suite.yaml").write_text(json.dumps({"name": "s", "tasks": [task]}))
    report = small.evaluate(tmp_path / "suite.yaml", [small.register(tiny_llama)])[0]
    assert [metric.name for metric in report.metrics] == ["pass@1", "pass@3"]
    assert report.metrics[0].value <= report.metrics[1].value
    assert report.items[0].correct or "rror" in report.items[0].expected


def test_a_runtime_that_cannot_score_is_refused_not_guessed(
    small: Mmodel, smollm2_gguf: Path, tmp_path: Path
) -> None:
    pytest.importorskip("xllamacpp")
    folder = tmp_path / "gguf"
    folder.mkdir()
    (folder / "m.gguf").write_bytes(smollm2_gguf.read_bytes())
    small.register(write_manifest(folder, name="smol"))
    with pytest.raises(BadInput, match="no log-probabilities"):
        small.evaluate(write_suite(tmp_path, 4), ["smol"])
    assert small.reports() == []
    small.close()


def test_a_real_model_knows_capitals(small: Mmodel, smollm2: Path, tmp_path: Path) -> None:
    capitals = {
        "France": "Paris",
        "Japan": "Tokyo",
        "Italy": "Rome",
        "Egypt": "Cairo",
        "Peru": "Lima",
        "中国": "北京",
    }
    rows = [
        {
            "id": country,
            "question": f"What is the capital of {country}?",
            "choices": list(capitals.values()),
            "answer": city,
        }
        for country, city in capitals.items()
    ]
    (tmp_path / "c.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "utf-8")
    suite = tmp_path / "c.yaml"
    suite.write_text(json.dumps({"name": "c", "tasks": [{"name": "capitals", "data": "c.jsonl"}]}))
    small.register(smollm2)
    (report,) = small.evaluate(suite, ["smollm2-135m-instruct"])
    assert report.metrics[0].value >= 5 / 6
    small.close()
