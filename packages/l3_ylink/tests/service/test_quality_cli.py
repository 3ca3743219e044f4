"""Models of quality from the command line, and as steps of a recipe that store their scores."""

import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from l3_ylink._kit.problems import Problem
from l3_ylink.cli import app
from l3_ylink.datakit.explain import explain, whatif
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe
from typer.testing import CliRunner

GOOD = "方法 数据 实验 结果 分析 理论 the method explains why the result of each step holds".split()  # noqa: SIM905
BAD = "优惠 点击 免费 注册 下载 立即 click here free bonus sale now best price buy".split()  # noqa: SIM905


def text(good: bool, draw: random.Random) -> str:
    words, other = (GOOD, BAD) if good else (BAD, GOOD)
    return " ".join(draw.choice(words if draw.random() < 0.9 else other) for _ in range(draw.randint(15, 40)))


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {"id": str(n), "text": text(n % 2 == 0, draw), "label": "good" if n % 2 == 0 else "bad"}
        for n in range(count)
    ]


def write(path: Path, values: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(value) + b"\n" for value in values))
    return path


def call(*words: Any) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(found.exception, Problem):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout


def test_train_report_apply_and_use_in_a_recipe(tmp_path: Path) -> None:
    source = write(tmp_path / "labelled.jsonl", rows(400))
    (tmp_path / "in").mkdir()
    out = call("data", "classifier", "train", source, "--positive", "good", "--out", tmp_path / "in/model")
    assert "probability stated and seen" in out
    report = json.loads(call("data", "classifier", "report", tmp_path / "in/model", "--json"))
    assert report["test"]["kappa"] > 0.8
    lines = call("data", "classifier", "apply", tmp_path / "in/model", source).splitlines()
    scores = [json.loads(line) for line in lines]
    assert [row["id"] for row in scores] == [str(n) for n in range(400)]
    assert sum(row["label"] == ("good" if int(row["id"]) % 2 == 0 else "bad") for row in scores) > 380

    new = rows(40, seed=5)
    write(tmp_path / "in/rows.jsonl", new)
    call("data", "perplexity", "train", source, "--out", tmp_path / "in/ngrams", "--order", "2")
    steps = [
        {"step": "extract"},
        {"step": "perplexity", "models": {"other": "ngrams"}, "most": {"other": 1e9}},
        {"step": "classify", "models": [{"name": "worth", "path": "model"}], "least": {"worth": 0.5}},
    ]
    sources = [{"name": "all", "licence": "CC0-1.0", "include": ["rows.jsonl"]}]
    recipe = parse_recipe({"name": "classified", "sources": sources, "steps": steps})
    run_recipe(recipe, input_folder=tmp_path / "in", out=tmp_path / "out")
    run_recipe(recipe, input_folder=tmp_path / "in", out=tmp_path / "two", workers=2, block_bytes=2_000)
    kept = pq.read_table(next((tmp_path / "out/text").glob("*.parquet")), columns=["id"])["id"].to_pylist()
    assert sum(int(name.rpartition("#")[2]) % 2 == 0 for name in kept) >= 18
    found = explain(tmp_path / "out", "#1")
    assert (found.step, found.reason) == ("classify", "low_worth")
    assert found.signals["score_worth"] < 0.5
    assert found.signals["perplexity"] > 1
    assert explain(tmp_path / "two", "#1").signals["score_worth"] == found.signals["score_worth"]
    assert whatif(tmp_path / "out", {"classify.least.worth": 0.0}).kept_after == 40
    assert whatif(tmp_path / "out", {"perplexity.most.other": 1.0}).kept_after == 0
    with pytest.raises(Problem, match="changes what is measured"):
        whatif(tmp_path / "out", {"classify.models": [{"name": "worth", "path": "other"}]})


def test_perplexity_is_printed_and_written_as_arpa(tmp_path: Path) -> None:
    source = write(tmp_path / "rows.jsonl", rows(50))
    model = tmp_path / "model"
    about = json.loads(call("data", "perplexity", "train", source, "--out", model, "--json"))
    assert about["order"] == 3
    assert len(about["ngrams"]) == 3
    scored = [json.loads(line) for line in call("data", "perplexity", "score", model, source).splitlines()]
    assert all(row["perplexity"] > 1 and row["unknown_words"] == 0 for row in scored)
    call("data", "perplexity", "arpa", model, "--out", tmp_path / "model.arpa")
    assert (tmp_path / "model.arpa").read_text("utf-8").startswith("\\data\\\nngram 1=")


class Labeller(BaseHTTPRequestHandler):
    """An OpenAI-compatible server whose model counts good words."""

    asked = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).asked += 1
        shown = body["messages"][0]["content"].split("----------")[1].split()
        share = sum(word in GOOD for word in shown) / max(len(shown), 1)
        score = min(5, int(6 * share) + (body["seed"] % 2 if 0.3 < share < 0.9 else 0))
        said = "I cannot say." if "refuse" in shown else json.dumps({"reason": "words", "score": score})
        answer = {"choices": [{"message": {"content": said}, "finish_reason": "stop"}]}
        payload = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Labeller.asked = 0
    served = ThreadingHTTPServer(("127.0.0.1", 0), Labeller)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}/v1"
    served.shutdown()
    thread.join()
    served.server_close()


def test_labels_of_a_language_model_become_a_classifier_with_a_report(tmp_path: Path, server: str) -> None:
    source = write(tmp_path / "rows.jsonl", [*rows(160), {"id": "x", "text": "please refuse this"}])
    labels = tmp_path / "labels.jsonl"
    words = ("data", "classifier", "label", source, "--out", labels, "--url", server, "--model", "m")
    limited = json.loads(call(*words, "--times", "2", "--requests", "100", "--json"))
    assert limited["spent"] == "requests"
    assert limited["labelled"] < 51
    done = json.loads(call(*words, "--times", "2", "--requests", "1000", "--json"))
    assert (done["labelled"], done["rejected"], done["spent"]) == (160, {"no_score": 1}, "")
    assert Labeller.asked == 321  # nothing is asked twice; the reject is asked once
    assert 0 < done["itself"]["kappa"] < 1
    written = [json.loads(line) for line in labels.read_text("utf-8").splitlines()]
    assert [row["id"] for row in written] == [str(n) for n in range(160)]
    assert json.loads((tmp_path / "labels.rejects.jsonl").read_text())["reason"] == "no_score"

    gold = [{"text": row["text"], "score": 5 if row["label"] == "good" else 0} for row in rows(60)]
    write(tmp_path / "gold.jsonl", gold)
    made = ("data", "classifier", "distil", labels, "--out", tmp_path / "model")
    report = json.loads(call(*made, "--gold", tmp_path / "gold.jsonl", "--json"))
    assert report["test"]["kappa"] > 0.6
    assert sum(map(sum, report["test"]["confusion"])) == report["rows"]["test"]
    assert report["source"]["gold"]["texts"] == 60
    assert report["source"]["gold"]["good"]["kappa"] > 0.9
    assert report["source"]["gold"]["scores"]["kappa_quadratic"] > 0.8


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("classifier", "train", "rows.jsonl", "--positive", "good", "--out", "m", "--kind", "bert"), "bert"),
        (("classifier", "report", "nothing"), "no classifier here"),
        (("perplexity", "score", "nothing", "rows.jsonl"), "no model here"),
        (("perplexity", "train", "nothing.pdf", "--out", "m"), "holds no texts"),
        (("classifier", "distil", "rows.jsonl", "--out", "m"), "is no score"),
        (("classifier", "label", "rows.jsonl", "--out", "l", "--url", "ftp://x", "--model", "m"), "url"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.jsonl", rows(4))
    with pytest.raises(Problem, match=part):
        call("data", *words)
