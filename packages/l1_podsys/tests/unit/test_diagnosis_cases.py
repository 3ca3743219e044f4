"""Each JSON file in `cases/` is one test: texts in, findings expected.  Adding a case is adding a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from l1_podsys.core.diagnosis import Finding, diagnose

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.json"))


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else (HERE / "captured" / value["captured"]).read_text("utf-8")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = json.loads(path.read_text("utf-8"))
    found = diagnose({name: text_of(value) for name, value in case["files"].items()})
    assert sorted(f.fault for f in found) == sorted(row["fault"] for row in case["expect"])
    by_fault = {finding.fault: finding for finding in found}
    for row in case["expect"]:
        check(by_fault[row["fault"]], row)


def check(finding: Finding, row: dict[str, Any]) -> None:
    assert finding.confidence >= row.get("confidence", 0)
    assert finding.cause
    assert finding.evidence, "a finding without evidence is a guess"
    assert finding.where == row.get("where", finding.where)
    assert set(row.get("symptoms", [])) <= set(finding.symptoms)
    shown = " ".join(evidence.text for evidence in finding.evidence)
    for name, text in (
        ("title", finding.title),
        ("fix", finding.fix),
        ("gain", finding.gain),
        ("evidence", shown),
    ):
        for words in row.get(name, []):
            assert words in text, f"{name} lacks {words!r}: {text}"
    for words in row.get("not_fix", []):
        assert words not in finding.fix


def test_evidence_is_a_line_of_the_text() -> None:
    text = "noise\n[ 1.0] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n"
    (finding,) = diagnose({"kern.log": text})
    first = finding.evidence[0]
    assert (first.file, first.line) == ("kern.log", 2)
    assert first.text == text.splitlines()[1]
