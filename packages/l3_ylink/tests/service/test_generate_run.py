"""Generating against a server of our own with OpenAI's interface: rows, rejects, faults, budgets, kills."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from l3_ylink._kit.problems import BadInput, Unavailable
from l3_ylink.datakit.datagen.recipe import GenerateRecipe, parse_generate_recipe
from l3_ylink.datakit.datagen.run import Generated, generate
from l3_ylink.documents import DatasetManifest

SOAK = bool(os.environ.get("OGAI_SOAK"))
Reply = Callable[[dict[str, Any]], str | tuple[int, dict[str, str], bytes] | None]
WORDS = [
    "tide",
    "moon",
    "ebb",
    "sand",
    "gull",
    "rope",
    "mast",
    "keel",
    "oar",
    "net",
    "fish",
    "salt",
    "wind",
    "star",
    "lamp",
    "port",
    "bell",
    "buoy",
    "reef",
    "wave",
]


class Server:
    """An OpenAI-compatible server whose answers a function gives; it remembers what it was asked."""

    def __init__(self, reply: Reply) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append(body)
                server.keys.add(self.headers.get("Authorization"))
                with contextlib.suppress(OSError):
                    server.answer(self, reply(body))

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler, said: Any) -> None:
        if said is None:
            handler.close_connection = True
            return
        status, headers, data = said if isinstance(said, tuple) else (200, {}, b"")
        if isinstance(said, str):
            choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 10, "completion_tokens": 5}
            data = json.dumps({"choices": [choice], "usage": usage}).encode()
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[[Reply], Server]]:
    made: list[Server] = []

    def start(reply: Reply) -> Server:
        made.append(Server(reply))
        return made[-1]

    yield start
    for server in made:
        server.close()


def last(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def task_of(body: dict[str, Any]) -> str:
    """A task made of other words for each question, so that no two are alike."""
    mark = hashlib.sha256(json.dumps([last(body), body["seed"]]).encode()).digest()
    return "Explain " + " ".join(WORDS[byte % len(WORDS)] + str(byte) for byte in mark[:8])


def clever(body: dict[str, Any]) -> str:
    """A model that does as it is told."""
    text = last(body)
    if (
        "one more task" in text
        or "Rewrite this task" in text
        or "of the same field" in text
        or "This is a person" in text
    ):
        return task_of(body)
    if text.startswith("Judge"):
        return json.dumps({"score": 3 if "moon" in text.partition("Answer:")[0] else 9, "reason": "so"})
    return f"An answer to {text[:80]}"


def recipe(server: Server, method: dict[str, Any], **more: Any) -> GenerateRecipe:
    about = {
        "name": "made",
        "licence": "CC0-1.0",
        "model": {"url": server.url, "name": "m"},
        "method": method,
    }
    return parse_generate_recipe({**about, **more})


def rows(made: Generated, name: str = "train.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (made.folder / name).read_text("utf-8").splitlines()]


def seeds(folder: Path, count: int = 4) -> Path:
    folder.mkdir(exist_ok=True)
    tasks = [f"Write about {one} and {other} at sea" for one, other in itertools.pairwise(WORDS)]
    (folder / "seeds.txt").write_text("\n".join(tasks[:count]))
    return folder


SELF = {"method": "self_instruct", "seeds": "seeds.txt", "round_of": 5}


@pytest.mark.parametrize("parallel", [1, 8])
def test_rows_are_the_same_for_any_number_of_threads_and_are_valid_instructions(
    tmp_path: Path, serve: Callable[[Reply], Server], parallel: int
) -> None:
    rng = random.Random(parallel)

    def late(body: dict[str, Any]) -> str:
        time.sleep(rng.random() / 50)  # answers come back in another order
        return clever(body)

    server = serve(late)
    made = generate(
        recipe(server, SELF, rows=12, parallel=parallel, judge={"least": 7}),
        input_folder=seeds(tmp_path / "in"), out=tmp_path / "out",
    )  # fmt: skip
    assert (made.ended, made.kept) == ("rows", 12)
    assert len(rows(made)) == 12
    for row in rows(made):
        assert [turn["role"] for turn in row["messages"]] == ["user", "assistant"]
        assert row["messages"][1]["content"].endswith(row["messages"][0]["content"][:80])  # joined by key
        assert row["meta"]["score"] == 9
    assert {row["reason"] for row in rows(made, "rejected.jsonl")} <= {
        "judged_low",
        "too_similar",
        "not_needed",
    }
    manifest = DatasetManifest.read(made.folder / "dataset-manifest.json")
    assert (manifest.kind, manifest.rows, manifest.steps[0].kept) == ("instructions", 12, 12)
    assert manifest.steps[0].seen == 12 + len(rows(made, "rejected.jsonl"))
    stored = tmp_path.parent / "rows-of-any-number-of-threads"
    content = (made.folder / "train.jsonl").read_bytes()
    if stored.exists():
        assert stored.read_bytes() == content
    stored.write_bytes(content)


def test_evolved_tasks_know_their_parents_and_bad_ones_are_rejected_with_reasons(
    tmp_path: Path, serve: Callable[[Reply], Server]
) -> None:
    def reply(body: dict[str, Any]) -> str:
        text = last(body)
        if "Task: " in text and "tide" in text:
            return text.partition("Task: ")[2]
        if "Task: " in text and "ebb and" in text:
            return "Here is the rewritten one: " + task_of(body)
        if "Task: " in text and "sand and" in text:
            return "I'm sorry, I cannot do that."
        return clever(body)

    server = serve(reply)
    made = generate(
        recipe(server, {"method": "evolve", "seeds": "seeds.txt", "generations": 2}),
        input_folder=seeds(tmp_path / "in"), out=tmp_path / "out",
    )  # fmt: skip
    assert made.ended == "done"
    good = rows(made)
    assert [(row["meta"]["seed"], row["meta"]["generation"]) for row in good] == [(1, 1), (1, 2)]
    assert good[1]["meta"]["parent"] == good[0]["messages"][0]["content"]
    assert made.rejected == {"refusal": 2, "repeats_prompt": 2, "unchanged": 2}


def test_each_persona_brings_its_task_in_chinese_too(
    tmp_path: Path, serve: Callable[[Reply], Server]
) -> None:
    def reply(body: dict[str, Any]) -> str:
        text = last(body)
        if text.startswith("这是一个人物"):
            who = text.partition("：")[2].partition("\n")[0]
            return f"我是{who}，请问{'水产养殖' if '渔' in who else '小学数学'}应该从哪里开始学起？"
        return f"回答：{text}"

    (tmp_path / "people.txt").write_text("渔夫\n教师\n", "utf-8")
    server = serve(reply)
    made = generate(
        recipe(server, {"method": "persona", "personas": "people.txt"}, language="zh"),
        input_folder=tmp_path, out=tmp_path / "out",
    )  # fmt: skip
    assert [row["meta"]["persona"] for row in rows(made)] == ["渔夫", "教师"]
    assert "水产养殖" in rows(made)[0]["messages"][1]["content"]


PAPER = (
    "The lighthouse of Aberwick was built in 1871 by Tom Hale. Its lamp turns once in 14 seconds.\n\n"
    "The keeper rows to the reef every Monday. On other days the water is too rough for a boat.\n\n"
)


def test_an_answer_cites_its_source_letter_by_letter_or_is_rejected(
    tmp_path: Path, serve: Callable[[Reply], Server]
) -> None:
    entries = [
        {
            "question": "Who built it?",
            "answer": "Tom Hale built it in 1871",
            "quote": "was built in 1871 by Tom Hale",
        },
        {
            "question": "How fast?",
            "answer": "once in 14 seconds",
            "quote": "lamp turns once in 15 seconds",
        },
        {
            "question": "When does the keeper row?",
            "answer": "Purple elephants dance",
            "quote": "every Monday. On",
        },
        {"question": "", "answer": "x", "quote": "every Monday"},
        {"question": "Why so short a quote?", "answer": "the reef", "quote": "reef"},
    ]
    server = serve(lambda _: f"Surely!\n```json\n{json.dumps(entries)}\n```")
    (tmp_path / "a.md").write_text(f"# Aberwick\n\n{PAPER}")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4 broken")
    method = {"method": "document_qa", "documents": ["*.md", "*.pdf"], "shortest": 50, "each": 5}
    made = generate(recipe(server, method), input_folder=tmp_path, out=tmp_path / "out")
    (row,) = rows(made)
    assert row["messages"][0]["content"] == "Who built it?"
    about = row["meta"]
    assert about["sha256"] == hashlib.sha256((tmp_path / "a.md").read_bytes()).hexdigest()
    first, after = about["sources"][0]["chars"]
    assert (tmp_path / "a.md").read_text()[first:after] == "was built in 1871 by Tom Hale"
    assert made.rejected == {
        "no_question": 1, "quote_not_found": 1, "quote_too_short": 1, "unreadable": 1, "unsupported": 1,
    }  # fmt: skip
    bad = {row["reason"]: row for row in rows(made, "rejected.jsonl")}
    assert bad["quote_not_found"]["detail"] == "lamp turns once in 15 seconds"
    assert bad["unreadable"]["meta"]["path"] == "b.pdf"


@pytest.mark.real
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: apt install bubblewrap")
def test_code_is_kept_only_if_it_passes_tests_that_need_it(
    tmp_path: Path, serve: Callable[[Reply], Server]
) -> None:
    def reply(body: dict[str, Any]) -> str:
        text = last(body)
        first = body["messages"][0]["content"]
        if text.startswith("Task:"):
            if "tide" in text:
                return "```python\nassert 1 == 1\n```"
            return "```python\nassert double(2) == 4\nassert double(-1) == -2\n```"
        if "keel" in first:
            return "```python\nimport os\ndef double(x):\n    return open('/etc/passwd').read()\n```"
        if "mast" in first or ("ebb" in first and "The code fails" not in text):
            return "```python\ndef double(x):\n    return x * x\n```"
        if "rope" in first:
            return "```python\ndef double(x):\n    while True: pass\n```"
        return "Here:\n```python\ndef double(x):\n    return 2 * x\n```"

    (tmp_path / "t.txt").write_text(
        "\n".join(f"Double a number of {word}s" for word in ("moon", "ebb", "mast", "rope", "tide", "keel"))
    )
    method = {"method": "evolve", "seeds": "t.txt", "generations": 1}

    def evolving(body: dict[str, Any]) -> str:
        text = last(body)
        harder = re.search(r"Task: (Double a number of \w+)", text)
        return f"{harder[1]} with care" if harder and not text.startswith("Task:") else reply(body)

    server = serve(evolving)
    made = generate(
        recipe(server, method, verify={"seconds": 2, "repairs": 1}),
        input_folder=tmp_path,
        out=tmp_path / "out",
    )
    assert {(row["meta"]["parent"].split()[-1], row["meta"]["repairs"]) for row in rows(made)} == {
        ("moons", 0),
        ("ebbs", 1),
    }
    why = {
        row["meta"]["parent"].split()[-1]: (row["reason"], row["detail"])
        for row in rows(made, "rejected.jsonl")
    }
    assert why["masts"] == ("tests_failed", "AssertionError")
    assert why["ropes"] == ("tests_failed", "did not end in 2 s")
    assert why["tides"][0] == "tests_of_nothing"
    assert why["keels"][0] == "tests_failed"
    assert "No such file" in why["keels"][1] or "Permission" in why["keels"][1]


def test_without_a_sandbox_code_is_not_run(
    tmp_path: Path, serve: Callable[[Reply], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    server = serve(clever)
    with pytest.raises(Unavailable, match="bubblewrap"):
        generate(recipe(server, SELF, verify={}), input_folder=seeds(tmp_path / "in"), out=tmp_path / "out")
    assert server.asked == []


def test_faults_of_the_server_are_waited_out_and_what_it_refuses_is_a_rejected_row(
    tmp_path: Path, serve: Callable[[Reply], Server]
) -> None:
    tries: dict[str, int] = {}
    faults: list[Any] = [
        (429, {"Retry-After": "0"}, b"{}"),
        (503, {}, b"busy"),
        (200, {}, b"<html>"),
        (200, {}, b'{"choices": []}'),
        None,
    ]

    def reply(body: dict[str, Any]) -> Any:
        mark = json.dumps(body)
        tries[mark] = tries.get(mark, 0) + 1
        if tries[mark] == 1:
            return faults[len(tries) % len(faults)]
        if len(tries) == 7:
            return 400, {}, json.dumps({"error": {"message": "too many tokens"}}).encode()
        return clever(body)

    server = serve(reply)
    made = generate(
        recipe(server, SELF, rows=5, parallel=1), input_folder=seeds(tmp_path / "in"), out=tmp_path / "out"
    )
    assert made.kept == 5
    assert made.rejected["model_refused"] == 1
    refused = next(row for row in rows(made, "rejected.jsonl") if row["reason"] == "model_refused")
    assert "too many tokens" in refused["detail"]


def test_a_key_that_is_refused_and_a_server_that_is_gone_are_clear(
    tmp_path: Path, serve: Callable[[Reply], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-word")
    server = serve(lambda _: (401, {}, b'{"error": {"message": "bad key"}}'))
    about = {"url": server.url, "name": "m", "key_env": "MY_KEY"}
    with pytest.raises(Unavailable, match="refuses our key") as caught:
        generate(recipe(server, SELF, model=about), input_folder=seeds(tmp_path / "in"), out=tmp_path / "out")
    assert "MY_KEY" in str(caught.value)
    assert "secret-word" not in str(caught.value)
    assert server.keys == {"Bearer secret-word"}
    assert not any(
        b"secret-word" in file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file()
    )
    for url in ("ftp://x/v1", "http://user:word@host/v1", "nothing"):
        with pytest.raises(BadInput, match="url"):
            recipe(server, SELF, model={"url": url, "name": "m"})


def test_the_budget_is_never_gone_beyond_and_a_larger_one_goes_on_without_paying_twice(
    tmp_path: Path, serve: Callable[[Reply], Server]
) -> None:
    server = serve(clever)
    folder, out = seeds(tmp_path / "in"), tmp_path / "out"
    price = {"url": server.url, "name": "m", "price": {"input": 1_000, "output": 2_000}}
    made = generate(
        recipe(server, SELF, budget={"requests": 7}, model=price, rows=20), input_folder=folder, out=out
    )
    assert made.ended == "requests"
    assert len(server.asked) == made.cost.requests == 7
    assert made.cost.money == pytest.approx(7 * (10 * 1_000 + 5 * 2_000) / 1e6)
    again = generate(recipe(server, SELF, model=price, rows=20), input_folder=folder, out=out)
    assert (again.ended, again.kept) == ("rows", 20)
    bodies = [json.dumps(body, sort_keys=True) for body in server.asked]
    assert len(bodies) == len(set(bodies)) == again.cost.requests
    fresh = generate(recipe(server, SELF, model=price, rows=20), input_folder=folder, out=tmp_path / "fresh")
    assert (fresh.folder / "train.jsonl").read_bytes() == (out / "train.jsonl").read_bytes()
    for bound in ({"tokens": 3_000}, {"money": 3.0}):
        name = next(iter(bound))
        poor = generate(
            recipe(server, SELF, model=price, rows=20, budget=bound), input_folder=folder, out=tmp_path / name
        )
        assert poor.ended == name
        assert poor.cost.prompt + poor.cost.completion <= 3_000
        assert poor.cost.money <= 3.0
    with pytest.raises(BadInput, match="another recipe"):
        generate(recipe(server, SELF, model=price, seed=1), input_folder=folder, out=out)


def test_a_run_that_is_killed_again_and_again_gives_the_rows_of_an_undisturbed_one(
    tmp_path: Path, serve: Callable[[Reply], Server]
) -> None:
    def slow(body: dict[str, Any]) -> str:
        time.sleep(0.02)
        return clever(body)

    server = serve(slow)
    folder = seeds(tmp_path / "in")
    plan = recipe(server, SELF, rows=15, judge={"least": 7})
    file = tmp_path / "plan.json"
    file.write_text(plan.model_dump_json())
    program = (
        "import sys, json; from pathlib import Path\n"
        "from l3_ylink.datakit.datagen.recipe import parse_generate_recipe\n"
        "from l3_ylink.datakit.datagen.run import generate\n"
        "plan = parse_generate_recipe(json.loads(Path(sys.argv[1]).read_text()))\n"
        "generate(plan, input_folder=Path(sys.argv[2]), out=Path(sys.argv[3]))\n"
    )
    rng = random.Random(int(os.environ.get("OGAI_SEED", "3")))
    out = tmp_path / "out"
    for _ in range(50 if SOAK else 3):
        target = len(server.asked) + rng.randrange(1, 25)
        with subprocess.Popen([sys.executable, "-c", program, str(file), str(folder), str(out)]) as process:
            deadline = time.monotonic() + 60
            while len(server.asked) < target and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
    made = generate(plan, input_folder=folder, out=out)
    asked = made.cost.requests
    fresh = generate(plan, input_folder=folder, out=tmp_path / "fresh")
    for name in ("train.jsonl", "rejected.jsonl"):
        assert (out / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()
    assert asked == fresh.cost.requests  # nothing that was answered was paid twice
