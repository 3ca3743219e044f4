"""Whole runs: the same bytes for any number of workers, kill and go on, what-if against a new run."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.problems import BadInput, Conflict, NotFound, Problem
from l3_ylink.datakit.explain import documents, explain, whatif
from l3_ylink.datakit.recipe import Recipe, parse_recipe
from l3_ylink.datakit.run import DataRun, run_recipe
from l3_ylink.datakit.transform.megatron import TokenFile
from l3_ylink.documents import DatasetManifest

SOAK = os.environ.get("OGAI_SOAK") == "1"
SEED = int(os.environ.get("OGAI_SEED", "20261130"))
STEPS: list[dict[str, Any]] = [
    {"step": "extract"},
    {"step": "clean"},
    {"step": "language"},
    {"step": "quality"},
    {"step": "personal"},
    {"step": "exact"},
    {"step": "near"},
    {"step": "tokenise", "vocabulary": 400},
]
POEM = "《登鹳雀楼》\n作者：王之涣\n白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。\n"
SENTENCE = (
    "the cluster has many nodes and each of them runs an agent that tells the server how the work goes while "
    "people look at the page to see which job waits for a place and which one has lost its node in the night "
    "because of heat or a broken fan so that somebody must come with a spare part and a torch"
)
WORDS = SENTENCE.split()


def prose(seed: int, sentences: int = 12) -> str:
    rng = random.Random(seed)
    lines = [
        " ".join(rng.choice(WORDS) for _ in range(rng.randrange(8, 16))).capitalize() + "."
        for _ in range(sentences)
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    for number in range(24):
        (folder / f"page-{number:02d}.txt").write_text(prose(number))
    (folder / "page-24.txt").write_text(prose(3))
    (folder / "page-25.txt").write_text(prose(4).replace("Node", "Rack", 1) + "One more line of it.\n")
    (folder / "sub/poem.txt").write_text(POEM)
    (folder / "sub/menu.html").write_text(
        "<html><body>" + "<div>首页</div><div>产品</div>" * 60 + "</body></html>"
    )
    (folder / "sub/broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    (folder / "sub/noise.txt").write_bytes(bytes(range(256)) * 8)
    (folder / "sub/empty.md").write_text("")
    (folder / "sub/french.txt").write_text(
        "Le système ne démarre plus, vérifiez le journal des événements. " * 8
    )
    rows = [json.dumps({"id": f"r{number}", "text": prose(100 + number)}) for number in range(20)]
    (folder / "rows.jsonl").write_text("\n".join([*rows[:10], "{broken", '{"other": 1}', *rows[10:]]) + "\n")
    return folder


def recipe(steps: list[dict[str, Any]] | None = None, **more: Any) -> Recipe:
    value = {"name": "test", "sources": [{"name": "all", "licence": "Apache-2.0"}], "steps": steps or STEPS}
    return parse_recipe({**value, **more})


def run(corpus: Path, out: Path, what: Recipe | None = None, **more: Any) -> DataRun:
    return run_recipe(what or recipe(), input_folder=corpus, out=out, block_bytes=10_000, **more)


def bytes_of(folder: Path) -> dict[str, str]:
    """Digests of every file of a run, by name."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", ".costs.jsonl")
    }


def fate(folder: Path, document: str) -> tuple[bool, str | None]:
    found = explain(folder, document)
    return found.kept, found.reason


def test_each_document_goes_where_it_belongs(corpus: Path, tmp_path: Path) -> None:
    done = run(corpus, tmp_path / "out")
    out = done.folder
    assert fate(out, "page-00.txt") == (True, None)
    assert fate(out, "poem.txt") == (True, None)
    assert fate(out, "broken.pdf") == (False, "broken")
    assert fate(out, "noise.txt") == (False, "binary")
    assert fate(out, "empty.md") == (False, "empty")
    assert fate(out, "french.txt") == (False, "language_fr")
    assert fate(out, "menu.html") == (False, "max_repeated_lines")
    assert fate(out, "page-24.txt") == (False, "same_text")
    assert explain(out, "page-24.txt").other == "page-03.txt"
    near = explain(out, "page-04.txt")
    assert (near.kept, near.reason, near.other) == (False, "similar_text", "page-25.txt")
    assert fate(out, "rows.jsonl#r7") == (True, None)
    assert [row["reason"] for row in documents(out, step="extract")[1]] == [
        "not a JSON object",
        "no text in field 'text'",
        "broken",
        "empty",
        "binary",
    ]


def test_the_manifest_adds_up_and_every_digest_is_right(corpus: Path, tmp_path: Path) -> None:
    out = run(corpus, tmp_path / "out").folder
    tokens = DatasetManifest.read(out / "dataset-manifest.json")
    text = DatasetManifest.read(out / "text/dataset-manifest.json")
    assert tokens.inputs == [text.reference()]
    for manifest, folder in ((tokens, out), (text, out / "text")):
        for shard in manifest.shards:
            assert digest_of_file(folder / shard.uri) == shard.sha256
            assert (folder / shard.uri).stat().st_size == shard.bytes
        seen = manifest.steps[0].seen
        for step in manifest.steps:
            assert step.seen == seen
            assert step.kept == step.seen - sum(step.dropped.values())
            seen = step.kept
        assert manifest.rows == seen == sum(shard.rows for shard in manifest.shards)
    assert tokens.tokenizer_digest == digest_of_file(out / "tokenizer.json")
    assert tokens.steps[0].seen == sum(source.documents for source in tokens.sources) == 54


def test_tokens_decode_to_the_kept_text_in_order(corpus: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    out = run(corpus, tmp_path / "out").folder
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    file = TokenFile(out / "tokens/text")
    texts = [
        row
        for path in sorted((out / "text").glob("*.parquet"))
        for row in pq.read_table(path)["text"].to_pylist()
    ]
    assert len(file) == len(texts)
    end = tokenizer.token_to_id("<|endoftext|>")
    for number, text in enumerate(texts):
        ids = file[number].tolist()
        assert ids[-1] == end
        assert tokenizer.decode(ids[:-1]) == text


def test_a_given_tokenizer_is_used_as_it_is(corpus: Path, tmp_path: Path) -> None:
    trained = run(corpus, tmp_path / "trained")
    (corpus / "given.json").write_bytes((trained.folder / "tokenizer.json").read_bytes())
    sources = [{"name": "all", "licence": "Apache-2.0", "exclude": ["given.json"]}]
    steps = [*STEPS[:-1], {"step": "tokenise", "tokenizer": "given.json"}]
    given = run(corpus, tmp_path / "given", recipe(steps, sources=sources))
    assert given.manifest.tokenizer_digest == trained.manifest.tokenizer_digest
    assert bytes_of(given.folder / "tokens") == bytes_of(trained.folder / "tokens")


def test_any_number_of_workers_gives_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    one = bytes_of(run(corpus, tmp_path / "one", workers=1).folder)
    three = bytes_of(run(corpus, tmp_path / "three", workers=3).folder)
    assert len([name for name in one if name.startswith("signals/")]) > 4
    assert one == three


def test_the_size_of_blocks_does_not_change_the_documents(corpus: Path, tmp_path: Path) -> None:
    def texts(block_bytes: int) -> list[dict[str, Any]]:
        out = tmp_path / str(block_bytes)
        run_recipe(recipe(), input_folder=corpus, out=out, block_bytes=block_bytes)
        return [
            row
            for path in sorted((out / "text").glob("*.parquet"))
            for row in pq.read_table(path).to_pylist()
        ]

    whole = texts(10_000_000)
    assert texts(3_000) == whole
    assert texts(9_999) == whole


def test_running_again_uses_every_block_and_gives_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    first = run(corpus, tmp_path / "out")
    before = bytes_of(first.folder)
    second = run(corpus, tmp_path / "out")
    assert (first.reused, second.reused) == (0, second.blocks)
    assert bytes_of(second.folder) == before


def test_a_changed_file_measures_its_block_only(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "out")
    (corpus / "page-07.txt").write_text(prose(77))
    again = run(corpus, tmp_path / "out")
    assert again.reused == again.blocks - 1
    fresh = run(corpus, tmp_path / "fresh")
    assert bytes_of(again.folder / "tokens") == bytes_of(fresh.folder / "tokens")


def test_a_damaged_block_is_measured_again(corpus: Path, tmp_path: Path) -> None:
    done = run(corpus, tmp_path / "out")
    block = done.folder / "signals/block-000001-0000.parquet"
    data = bytearray(block.read_bytes())
    data[len(data) // 2] ^= 0xFF
    before = bytes_of(done.folder / "tokens")
    block.write_bytes(bytes(data))
    again = run(corpus, tmp_path / "out")
    assert again.reused == again.blocks - 1
    assert bytes_of(again.folder / "tokens") == before


PROGRAM = """
import sys
from pathlib import Path
from l3_ylink.datakit.recipe import load_recipe
from l3_ylink.datakit.run import run_recipe
if __name__ == "__main__":
    run_recipe(load_recipe(Path(sys.argv[1])), input_folder=Path(sys.argv[2]), out=Path(sys.argv[3]),
               workers=2, block_bytes=10_000, progress=lambda *stage: print(*stage, flush=True))
"""


def test_killed_at_any_point_the_same_command_goes_on_and_loses_nothing(corpus: Path, tmp_path: Path) -> None:
    what = tmp_path / "recipe.yaml"
    what.write_text(json.dumps(recipe().model_dump(mode="json")))
    whole = bytes_of(run(corpus, tmp_path / "whole").folder)
    command = [sys.executable, "-c", PROGRAM, str(what), str(corpus), str(tmp_path / "out")]
    rng = random.Random(SEED)
    lines = len(
        subprocess.run(
            [*command[:-1], str(tmp_path / "count")], stdout=subprocess.PIPE, check=True
        ).stdout.splitlines()
    )
    for _ in range(50 if SOAK else 3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(rng.randrange(1, lines)):
            process.stdout.readline()
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    wait_for_workers_to_go(tmp_path / "out")
    committed = len(list((tmp_path / "out/signals").glob("block-*.json")))
    done = run(corpus, tmp_path / "out")
    assert done.reused == committed
    assert bytes_of(done.folder) == whole


def wait_for_workers_to_go(out: Path) -> None:
    """Workers end with their parent, in the middle of a block too."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        alive = [
            path
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if str(out).encode() in _read(path) and b"worker" in _read(path)
        ]
        if not alive:
            return
        time.sleep(0.05)
    raise AssertionError(f"workers of a killed run are still there: {alive}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_file_that_brings_the_reader_down_is_skipped_and_told(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A library's crash cannot be ordered, so the worker is told by its environment to die like one.
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def crash(event, args):\n"
        "    if event == 'open' and str(args[0]).endswith('page-05.txt'):\n"
        "        os._exit(139)\n"
        "sys.addaudithook(crash)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site))
    done = run(corpus, tmp_path / "out", workers=2)
    assert fate(done.folder, "page-05.txt") == (False, "crashed the reader")
    assert fate(done.folder, "page-06.txt") == (True, None)
    assert not list(done.folder.glob(".reading-*"))


def test_what_if_says_what_a_new_run_would_do(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "out")
    changes = {
        "near.threshold": 0.99,
        "quality.thresholds.en.min_units": "130",
        "language.keep": "[en, zh, fr]",
    }
    found = whatif(tmp_path / "out", changes)
    steps = [dict(step) for step in STEPS]
    steps[6]["threshold"] = 0.99
    steps[3]["thresholds"] = {"en": {"min_units": 130}}
    steps[2]["keep"] = ["en", "zh", "fr"]
    fresh = run(corpus, tmp_path / "fresh", recipe(steps))
    assert found.after == fresh.manifest.steps
    assert found.kept_after == fresh.manifest.rows
    assert "page-04.txt" in found.now_kept or fate(fresh.folder, "page-04.txt")[1] == "min_units"
    again = run(corpus, tmp_path / "out", recipe(steps))
    assert again.reused == again.blocks, "thresholds do not measure again"


def test_what_if_refuses_what_needs_the_texts(corpus: Path, tmp_path: Path) -> None:
    run(corpus, tmp_path / "out")
    before = bytes_of(tmp_path / "out")
    with pytest.raises(BadInput, match="changes what is measured"):
        whatif(tmp_path / "out", {"near.shingle": 3})
    with pytest.raises(BadInput, match="names no setting"):
        whatif(tmp_path / "out", {"luck": 1})
    with pytest.raises(BadInput, match="not readable YAML"):
        whatif(tmp_path / "out", {"near.threshold": "["})
    assert bytes_of(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("signals/block-000000-0000.parquet", b"noise", "is damaged"),
        ("signals/block-000000-0000.parquet", None, "not finished"),
        ("run.json", b"{", "is damaged"),
        ("run.json", b'{"recipe": {}}', "another version"),
        ("run.json", b"[]", "another version"),
    ],
)
def test_a_damaged_run_is_told_and_mended_by_the_same_command(
    corpus: Path, tmp_path: Path, file: str, content: bytes | None, words: str
) -> None:
    whole = run(corpus, tmp_path / "out")
    path = whole.folder / file
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(Problem, match=words) as caught:
        explain(whole.folder, "page-00.txt")
    assert (caught.value.exit_code, "run the same recipe again" in caught.value.do) == (2, True)
    assert run(corpus, tmp_path / "out").manifest.digest() == whole.manifest.digest()
    assert explain(whole.folder, "page-00.txt").kept


def test_a_file_name_that_is_no_text_is_named(corpus: Path, tmp_path: Path) -> None:
    """A name in GB18030, as archives from elsewhere bring it."""
    path = os.fsencode(corpus) + "/诗歌.txt".encode("gb18030")
    try:
        os.close(os.open(path, os.O_CREAT))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with pytest.raises(BadInput, match=r"not UTF-8: b'.*\\xca.*\.txt'"):
        run(corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_explanation_and_the_decision_never_disagree(corpus: Path, tmp_path: Path) -> None:
    out = run(corpus, tmp_path / "out").folder
    _, rows = documents(out, most=1000)
    for row in rows:
        found = explain(out, row["id"])
        failed = [check for check in found.checks if not check.held]
        assert found.kept == (not failed)
        if failed:
            assert (failed[0].step, failed[0].rule) == (
                row["step"],
                row["reason"] if row["step"] != "language" else failed[0].rule,
            )


def test_inputs_that_cannot_work_leave_nothing_behind(corpus: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(BadInput, match="holds no documents"):
        run(empty, tmp_path / "out")
    with pytest.raises(BadInput, match="is not a folder"):
        run(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(BadInput, match="lies inside the input folder"):
        run(corpus, corpus / "out")
    missing = [*STEPS[:2], {"step": "decontaminate", "against": [{"name": "set", "path": "none.jsonl"}]}]
    with pytest.raises(BadInput, match=r"cannot (be )?read"):
        run(corpus, tmp_path / "out", recipe(missing))
    given = [*STEPS[:2], {"step": "tokenise", "tokenizer": "page-00.txt"}]
    with pytest.raises(BadInput, match="is not a tokenizer"):
        run(corpus, tmp_path / "out", recipe(given))
    absent = recipe(instructions=[{"name": "set", "path": "none.jsonl", "licence": "MIT"}])
    with pytest.raises(BadInput, match=r"there is no file none\.jsonl"):
        run(corpus, tmp_path / "out", absent)
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("do not touch")
    with pytest.raises(BadInput, match="is not empty and holds no data run"):
        run(corpus, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    with pytest.raises(NotFound, match="no data run here"):
        explain(tmp_path / "mine", "x")


def test_two_runs_do_not_write_to_one_folder(corpus: Path, tmp_path: Path) -> None:
    import fcntl

    out = run(corpus, tmp_path / "out").folder
    with open(out / ".lock", "a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="another process is writing"):
            run(corpus, out)
    assert (out / "dataset-manifest.json").exists()


def test_documents_of_every_size_are_read_whole(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "one.txt").write_text("字")
    long = "".join(f"{prose(number, 40)}\n" for number in range(60))
    (folder / "long.txt").write_text(long)
    (folder / "odd.txt").write_bytes("a\u0085b\u2028c".encode() + b"\xed\xa0\x80")
    what = recipe([{"step": "extract", "longest": 20_000}], text_formats=["jsonl"])
    out = run(folder, tmp_path / "out", what).folder
    rows = [
        json.loads(line)
        for path in sorted((out / "text").glob("*.jsonl"))
        for line in path.read_text().split("\n")
        if line
    ]
    parts = [row for row in rows if row["path"] == "long.txt"]
    assert len(parts) > 5
    assert [row["id"] for row in parts[:3]] == ["long.txt", "long.txt~2", "long.txt~3"]
    assert "".join(row["text"] for row in parts) == long
    assert {row["id"] for row in rows} >= {"one.txt", "odd.txt"}


def test_a_bomb_a_locked_archive_and_a_link_outside_do_no_harm(corpus: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(corpus / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 30_000_000)
    (corpus / "broken.docx").write_bytes(b"PK\x03\x04 not a zip")
    (corpus / "cut.txt.gz").write_bytes(b"\x1f\x8b\x08\x00")
    secret = tmp_path / "secret.txt"
    secret.write_text(prose(999))
    (corpus / "link.txt").symlink_to(secret)
    out = run(corpus, tmp_path / "out").folder
    assert fate(out, "bomb.docx") == (False, "bomb")
    assert fate(out, "broken.docx") == (False, "broken")
    assert fate(out, "cut.txt.gz") == (False, "broken")
    with pytest.raises(NotFound):
        explain(out, "link.txt")


def test_instructions_are_checked_and_held_against_the_evaluation_set(corpus: Path, tmp_path: Path) -> None:
    line = "GPU 3 on node07 has fallen off the bus and does not come back after a restart"
    (corpus / "test.jsonl").write_text(json.dumps({"id": "t1", "question": line}) + "\n")
    good = {"messages": [{"role": "user", "content": "fan?"}, {"role": "assistant", "content": "replace"}]}
    leaked = {"instruction": f"Log: {line}", "output": "replace"}
    (corpus / "train.jsonl").write_text("\n".join(map(json.dumps, (good, leaked, {"x": 1}))) + "\n")
    (corpus / "leak.txt").write_text(prose(500) + line + ".\n")
    steps = [*STEPS[:7], {"step": "decontaminate", "against": [{"name": "test", "path": "test.jsonl"}]}]
    what = recipe(
        steps,
        sources=[{"name": "all", "licence": "MIT", "exclude": ["*.jsonl"]}],
        instructions=[{"name": "train", "path": "train.jsonl", "licence": "Apache-2.0"}],
    )
    out = run(corpus, tmp_path / "out", what).folder
    assert fate(out, "leak.txt") == (False, "shares_evaluation_items")
    manifest = DatasetManifest.read(out / "instructions/dataset-manifest.json")
    assert (manifest.kind, manifest.rows) == ("instructions", 1)
    assert manifest.steps[0].dropped == {"shares_evaluation_items": 1, "unknown form": 1}
    assert [json.loads(row) for row in (out / "instructions/train.jsonl").read_text().splitlines()] == [
        {"id": "1", **good}
    ]
    text = DatasetManifest.read(out / "text/dataset-manifest.json")
    assert text.contamination is not None
    assert (text.contamination.documents_hit, text.contamination.items_hit) == (1, ["test/t1"])


def test_the_report_shows_the_funnel_and_escapes_what_it_quotes(corpus: Path, tmp_path: Path) -> None:
    (corpus / "script.txt").write_text("<script>alert(1)</script>\n" * 40)
    done = run(corpus, tmp_path / "out")
    html = done.report.read_text()
    assert "<svg" in html
    assert "same_text" in html
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
