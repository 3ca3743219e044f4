"""`ylink data transform`: each command from files to files, and what it says of wrong ones."""

import base64
import gzip
import json
import random
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from l3_ylink._kit.problems import BadInput
from l3_ylink.cli import app
from l3_ylink.datakit.documents import columns
from l3_ylink.datakit.transform.files import convert_texts, shuffle_files, texts_of
from l3_ylink.datakit.transform.megatron import TokenFile, write_tokens
from l3_ylink.datakit.transform.shards import SUFFIXES, read_texts, write_shard
from l3_ylink.datakit.transform.tokens import train_tokenizer
from typer.testing import CliRunner

TEXTS = ["白日依山尽，黄河入海流。", "the node has left the pool\n", "", "🙂 mixed 混排 text"]
CHATML = (
    "{% for m in messages %}{{ '<|im|>' + m.role + '\n' + m.content + '<|endoftext|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im|>assistant\n' }}{% endif %}"
)


def ylink(*words: object) -> Any:
    done = CliRunner().invoke(app, ["data", "transform", *map(str, words), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def refused(*words: object) -> BadInput:
    done = CliRunner().invoke(app, ["data", "transform", *map(str, words)])
    assert isinstance(done.exception, BadInput), done.output
    return done.exception


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tokenizer.json"
    train_tokenizer([text * 9 for text in TEXTS], 320, "<|endoftext|>", path)
    (path.parent / "chat_template.jinja").write_text(CHATML)
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps({"text": text}) for text in TEXTS).encode()))
    return path


def test_from_text_to_packed_sequences(rows: Path, tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("one more text")
    done = ylink("tokenise", rows, tmp_path / "more.txt", "--tokenizer", tokenizer, "--out", tmp_path / "a")
    assert (done["documents"], done["engine"]) == (5, "fastokens")
    file = TokenFile(tmp_path / "a")
    assert [int(file[row][-1]) for row in range(5)] == [0] * 5
    assert len(file[2]) == 1, "an empty text is a document too"
    merged = ylink("merge", tmp_path / "a", tmp_path / "a", "--out", tmp_path / "twice")
    assert merged == {"documents": 10, "tokens": 2 * done["tokens"]}
    packed = ylink("pack", tmp_path / "twice", "--length", 16, "--out", tmp_path / "packed.parquet")
    assert packed["tokens"] == merged["tokens"]
    assert pq.read_table(tmp_path / "packed.parquet").num_rows == packed["sequences"]


@pytest.mark.parametrize("form", list(SUFFIXES))
def test_texts_go_to_every_form_and_come_back(rows: Path, tmp_path: Path, form: str) -> None:
    assert ylink("convert", rows, "--to", form, "--out", tmp_path / "out") == {"texts": 4}
    (shard,) = (tmp_path / "out").glob("part-*")
    assert list(texts_of([shard], "text")) == TEXTS
    convert_texts([rows], tmp_path / "again", form)
    assert shard.read_bytes() == (tmp_path / "again" / shard.name).read_bytes()


def test_a_tar_has_no_trace_of_the_machine(tmp_path: Path) -> None:
    path = write_shard(tmp_path, 3, "webdataset", {"id": ["a/b.txt", "c"], "text": ["x", "y"]})
    with tarfile.open(path) as tar:
        names = tar.getnames()
        assert {(entry.mtime, entry.uid, entry.uname) for entry in tar} == {(0, 0, "")}
    assert names == ["00000300000000.json", "00000300000000.txt", "00000300000001.json", "00000300000001.txt"]
    assert list(read_texts(path)) == ["x", "y"]


def test_lines_parquet_and_tokens_are_shuffled_alike(tmp_path: Path) -> None:
    count = 500
    (tmp_path / "x.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(count)))
    pq.write_table(columns.table({"n": np.arange(count)}), tmp_path / "x.parquet")
    write_tokens(tmp_path / "x", [np.full(1 + n % 5, n) for n in range(count)], vocabulary=1000)
    for name in ("x.jsonl", "x.parquet", "x"):
        out = tmp_path / f"y{name[1:]}"
        assert ylink("shuffle", tmp_path / name, "--out", out, "--seed", 5) == {"rows": count}
    order = [json.loads(line)["n"] for line in (tmp_path / "y.jsonl").read_text().splitlines()]
    file = TokenFile(tmp_path / "y")
    assert order == pq.read_table(tmp_path / "y.parquet").column("n").to_pylist()
    assert order == [int(file[row][0]) for row in range(count)]
    assert [len(file[row]) for row in range(count)] == [1 + n % 5 for n in order]
    assert sorted(order) == list(range(count)) != order


def test_a_shuffle_larger_than_its_memory(tmp_path: Path) -> None:
    source = random.Random(3)
    lines = [json.dumps({"n": n, "text": "x" * source.randrange(2000)}) for n in range(3000)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    for memory in (100_000, 10**9):
        shuffle_files([tmp_path / "x.jsonl"], tmp_path / f"{memory}.jsonl", 1, memory=memory)
    small, large = ((tmp_path / f"{memory}.jsonl").read_bytes() for memory in (100_000, 10**9))
    assert small == large
    assert sorted(small.decode().splitlines()) == sorted(lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["100000.jsonl", "1000000000.jsonl", "x.jsonl"]


def test_a_mix_is_planned_and_then_made(tmp_path: Path) -> None:
    for name in ("zh", "en"):
        write_tokens(tmp_path / name, [np.arange(10)] * 100, vocabulary=100)
    mix = {
        "sources": [{"name": "zh", "tokens": "zh", "weight": 3}, {"name": "en", "tokens": "en", "weight": 1}]
    }
    (tmp_path / "mix.yaml").write_text(yaml.safe_dump({**mix, "total": 1600}))
    planned = ylink("mix", tmp_path / "mix.yaml")
    found = [(row["name"], row["tokens"], row["epochs"]) for row in planned]
    assert found == [("zh", 1200, 1.2), ("en", 400, 0.4)]
    assert not (tmp_path / "out.bin").exists()
    assert ylink("mix", tmp_path / "mix.yaml", "--out", tmp_path / "out") == planned
    assert len(TokenFile(tmp_path / "out").tokens) == 1600


def test_samples_are_checked_written_and_rendered(tokenizer: Path, tmp_path: Path) -> None:
    good = {"conversations": [{"from": "human", "value": "node?"}, {"from": "gpt", "value": "left the pool"}]}
    (tmp_path / "in.jsonl").write_text("\n".join([json.dumps(good), "{}", json.dumps(good)]))
    done = ylink("chat", tmp_path / "in.jsonl", "--to", "openai", "--out", tmp_path / "out.jsonl")
    assert done["rejected"] == {"duplicate": 1, "unknown form": 1}
    assert len((tmp_path / "out.jsonl.rejects.jsonl").read_text().splitlines()) == 2
    model = tokenizer.parent
    done = ylink("render", tmp_path / "out.jsonl", "--model", model, "--out", tmp_path / "sft")
    file = TokenFile(tmp_path / "sft")
    assert (done["written"], done["rejected"]) == (1, {})
    assert file.mask is not None
    assert file.tokens[file.mask == 1][-1] == 0, "the mark that ends the answer is learnt"
    packed = ylink("pack", tmp_path / "sft", "--length", 64, "--out", tmp_path / "sft.parquet")
    (row,) = pq.read_table(tmp_path / "sft.parquet").to_pylist()
    assert (sum(row["loss_mask"]), row["seq_lengths"]) == (done["learnt"], [packed["tokens"]])


def test_ranks_become_a_tokenizer(tmp_path: Path) -> None:
    lines = [f"{base64.b64encode(bytes([byte])).decode()} {byte}" for byte in range(256)]
    (tmp_path / "x.tiktoken").write_text("\n".join(lines))
    assert ylink("ranks", tmp_path / "x.tiktoken", "--out", tmp_path / "t.json") == {"vocabulary": 257}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("tokenise {bad} --tokenizer {model} --out {out}", "row 1: 'text' is not text"),
        ("tokenise {rows} --tokenizer {model} --out {out} --field x", "row 1 has no field 'x'"),
        ("tokenise {rows} --tokenizer {model} --out {out} --end <x>", "has no token '<x>'"),
        ("tokenise {rows} --tokenizer {rows} --out {out}", "is not a tokenizer.json"),
        ("tokenise {torn} --tokenizer {model} --out {out}", "is damaged"),
        ("shuffle {torn} --out {out}", "is damaged"),
        ("shuffle {zst} --out {out}", "is damaged"),
        ("chat {folder} --to openai --out {out}", "cannot be read"),
        ("convert {numbers} --to jsonl --out {out}", "has no column 'text'"),
        ("convert {rows} --to x --out {out}", "no form 'x'"),
        ("convert {rows} --to jsonl --out {folder}", "is not empty"),
        ("shuffle {rows} {numbers} --out {out}", "of 2 kinds"),
        ("shuffle {none} --out {out}", "is not JSONL, Parquet or a token file"),
        ("merge {none} --out {out}", "no such index"),
        ("mix {mix}", "wait"),
        ("chat {rows} --to x --out {out}", "no form 'x'"),
        ("chat {rows} --to dpo --out {out} --repeated x", "'x' is unknown"),
        ("render {rows} --model {folder} --out {out}", "is not a tokenizer.json"),
    ],
)
def test_what_cannot_be_done_is_told(
    rows: Path, tokenizer: Path, tmp_path: Path, words: str, part: str
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": 1}\n')
    pq.write_table(columns.table({"n": [1]}), tmp_path / "n.parquet")
    (tmp_path / "mix.yaml").write_text("sources: [{name: a, tokens: a, wait: 3}]")
    (tmp_path / "torn.jsonl.gz").write_bytes(rows.read_bytes()[:-20])
    (tmp_path / "torn.jsonl.zst").write_bytes(b"(\xb5/\xfd nothing")
    names = {name: tmp_path / name for name in ("out", "none")}
    files = {"bad": tmp_path / "bad.jsonl", "numbers": tmp_path / "n.parquet", "mix": tmp_path / "mix.yaml"}
    files |= {"torn": tmp_path / "torn.jsonl.gz", "zst": tmp_path / "torn.jsonl.zst"}
    places = {"rows": rows, "model": tokenizer, "folder": tmp_path, **names, **files}
    assert part in str(refused(*(word.format(**places) for word in words.split())))
    assert not list(tmp_path.glob("out*"))
