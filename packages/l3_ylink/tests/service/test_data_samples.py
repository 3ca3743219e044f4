"""A recipe's samples for fine-tuning and its forms of text: checked, rejects with their reasons."""

import json
import random
from pathlib import Path
from typing import Any

from l3_ylink._kit.documents import digest_of_file
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe
from l3_ylink.datakit.transform.megatron import TokenFile
from l3_ylink.datakit.transform.shards import read_texts
from l3_ylink.documents import DatasetManifest

WORDS = ("the cluster", "has many nodes", "and each of them", "runs an agent", "tells the server")
QUESTION = {"role": "user", "content": "which fan?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "fans", "arguments": '{"node":7}'}}
CALLING = [
    QUESTION,
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "fan 3", "tool_call_id": "c1"},
    {"role": "assistant", "content": "the third"},
]


def say(seed: int) -> str:
    rng = random.Random(seed)
    return ". ".join(" ".join(rng.choice(WORDS) for _ in range(12)).capitalize() for _ in range(12)) + ".\n"


def make(folder: Path) -> dict[str, Any]:
    """A folder of texts and samples, and the recipe for it."""
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.txt").write_text(say(number))
    talks = [{"messages": CALLING}, {"messages": [QUESTION]}, {"messages": [QUESTION, QUESTION, CALLING[3]]}]
    pairs = [
        {"prompt": "a", "chosen": "b", "rejected": "c"},
        {"prompt": "a", "chosen": "b", "rejected": "b"},
        {"messages": CALLING},
    ]
    for name, rows in (("talks", talks), ("pairs", pairs)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return {
        "name": "samples",
        "sources": [{"name": "texts", "licence": "MIT", "include": ["*.txt"]}],
        "steps": [{"step": "extract"}, {"step": "tokenise", "vocabulary": 300}],
        "text_formats": ["webdataset", "arrow", "parquet"],
        "instructions": [{"name": "talks", "path": "talks.jsonl", "licence": "MIT"}],
        "preferences": [
            {"name": "pairs", "path": "pairs.jsonl", "licence": "MIT"},
            {"name": "labels", "path": "pairs.jsonl", "licence": "CC0-1.0", "form": "kto"},
        ],
    }


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_samples_and_forms_of_text(tmp_path: Path) -> None:
    value = make(tmp_path / "in")
    out = run_recipe(parse_recipe(value), input_folder=tmp_path / "in", out=tmp_path / "out").folder

    talks = DatasetManifest.read(out / "instructions/dataset-manifest.json")
    assert (talks.kind, talks.rows, talks.steps[0].changed) == ("instructions", 2, 1)
    assert lines(out / "instructions/talks.jsonl")[0] == {"id": "1", "messages": CALLING}
    assert lines(out / "instructions/talks.jsonl")[1]["messages"][0]["content"] == "which fan?\n\nwhich fan?"

    pairs = DatasetManifest.read(out / "preferences/dataset-manifest.json")
    assert (pairs.kind, pairs.rows, [shard.rows for shard in pairs.shards]) == ("preferences", 3, [1, 2])
    assert pairs.steps[0].dropped == {
        "chosen and rejected are the same": 2,
        "is a conversation, not a judged answer": 1,
        "is a conversation, not a pair of answers": 1,
    }
    assert [row["label"] for row in lines(out / "preferences/labels.jsonl")] == [True, False]
    assert [row["line"] for row in lines(out / "preferences/rejects/pairs.jsonl")] == [2, 3]
    assert [source.licence for source in pairs.sources] == ["MIT", "CC0-1.0"]

    text = DatasetManifest.read(out / "text/dataset-manifest.json")
    assert [shard.uri for shard in text.shards] == [
        "part-000000.tar",
        "part-000000.arrow",
        "part-000000.parquet",
        "dataset_info.json",
        "state.json",
    ]
    for manifest, folder in ((text, "text"), (talks, "instructions"), (pairs, "preferences")):
        for shard in manifest.shards:
            assert digest_of_file(out / folder / shard.uri) == shard.sha256
    texts = [list(read_texts(out / "text" / shard.uri)) for shard in text.shards[:3]]
    assert texts[0] == texts[1] == texts[2] != []
    assert len(TokenFile(out / "tokens/text")) == len(texts[0]) == text.rows


def test_without_them_nothing_of_an_earlier_run_stays(tmp_path: Path) -> None:
    value = make(tmp_path / "in")
    out = run_recipe(parse_recipe(value), input_folder=tmp_path / "in", out=tmp_path / "out").folder
    less = {**value, "text_formats": ["parquet"], "preferences": []}
    run_recipe(parse_recipe(less), input_folder=tmp_path / "in", out=out)
    assert not (out / "preferences/dataset-manifest.json").exists()
    left = {path.name for path in (out / "text").iterdir()}
    assert left == {"part-000000.parquet", "dataset-manifest.json"}
