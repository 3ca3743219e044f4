"""`ylink data …` as a person types it: output, JSON, exit codes, and one clear error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = """
name: small
sources:
  - {name: docs, licence: MIT, include: ["*.txt"]}
steps:
  - step: extract
  - step: clean
  - step: language
  - step: quality
  - step: exact
"""
TEXT = (
    "The agent tells the server how the work goes, and the people of the shift look at the page to see that "
    "it does. When a node is lost the job waits for a spare one, and it begins again with what it has saved. "
    "Nobody has to be awake for this, but somebody should know of it in the morning."
)


def ylink(*arguments: object, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "l3_ylink", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={"OGAI_HOME": str(home), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        timeout=120,
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"in/{name}.txt").write_text(TEXT)
    (tmp_path / "in/list.csv").write_text("1,2\n")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return tmp_path


def test_run_report_explain_whatif_in_turn(place: Path) -> None:
    run = ylink(
        "data", "run", place / "recipe.yaml", "--input", place / "in", "--out", place / "out", home=place
    )
    assert run.returncode == 0, run.stderr
    assert "same_text 1" in run.stdout
    assert "1 documents kept" in run.stdout
    assert "1 files belong to no source" in run.stdout
    found = ylink("data", "explain", place / "out", "b.txt", home=place)
    assert "b.txt: dropped by exact: same_text" in found.stdout
    assert "a.txt" in found.stdout
    report = json.loads(ylink("data", "report", place / "out", "--json", home=place).stdout)
    assert Path(report["report"]).is_file()
    asked = json.loads(
        ylink(
            "data",
            "whatif",
            place / "out",
            "--set",
            "quality.thresholds.en.min_units=500",
            "--json",
            home=place,
        ).stdout
    )
    assert (asked["kept_before"], asked["kept_after"]) == (1, 0)
    listed = json.loads(ylink("data", "documents", place / "out", "--dropped", "--json", home=place).stdout)
    assert [row["id"] for row in listed["documents"]] == ["b.txt"]
    again = ylink(
        "data", "run", place / "recipe.yaml", "--input", place / "in", "--out", place / "out", home=place
    )
    assert "1 of 1 blocks were there already" in again.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("data", "run", "none.yaml", "--input", "in", "--out", "out"), "no such recipe"),
        (("data", "run", "recipe.yaml", "--input", "empty", "--out", "out"), "is not a folder"),
        (("data", "explain", "in", "x"), "no data run here"),
        (("data", "whatif", "in", "--set", "x"), "has no '='"),
        (("schema", "none"), "no document"),
    ],
)
def test_an_error_is_one_clear_message_and_exit_code_2(
    place: Path, arguments: tuple[str, ...], words: str
) -> None:
    names = {"none.yaml", "recipe.yaml", "in", "empty", "out"}
    paths = [place / part if part in names else part for part in arguments]
    failed = ylink(*paths, home=place)
    assert failed.returncode == 2
    assert words in failed.stderr
    assert failed.stderr.startswith("error: ")
    assert "Traceback" not in failed.stderr
    assert not (place / "out").exists()


def test_an_error_is_json_where_json_was_asked_for(place: Path) -> None:
    failed = ylink("data", "report", place / "in", "--json", home=place)
    assert json.loads(failed.stderr)["title"] == "no data run here"


def test_the_shipped_funnel_runs_by_name_and_tells_its_card_and_cost(place: Path) -> None:
    names = ylink("data", "recipe", home=place).stdout
    assert "mdfs" in names
    shipped = ylink("data", "recipe", "mdfs", home=place).stdout
    examples = Path(__file__).parents[2] / "examples/mdfs.yaml"
    assert shipped == examples.read_text("utf-8")
    (place / "in/poem.md").write_text(
        "白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。\n", encoding="utf-8"
    )
    ran = ylink("data", "run", "mdfs", "--input", place / "in", "--out", place / "out", "--json", home=place)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["alarms"] == []
    assert {step["step"]: step["kept"] for step in found["manifest"]["steps"]}["tokenise"] == 2
    told = json.loads(
        ylink("data", "card", place / "out", "--date", "2026-11-30", "--json", home=place).stdout
    )
    assert told["conditions"] == ["unknown"]
    assert Path(told["card"]).read_text("utf-8").startswith("---\n")
    cost = json.loads(ylink("data", "cost", place / "out", "--bytes", "1TB", "--json", home=place).stdout)
    assert cost["input_bytes"] == 1e12
    assert all(check["ok"] for check in cost["checks"])
    lineage = json.loads(ylink("data", "explain", place / "out", "poem.md", "--json", home=place).stdout)
    assert lineage["lineage"]["licence"] == "LicenseRef-unknown"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("data", "recipe", "none"), "take mdfs"),
        (("data", "cost", "in", "--bytes", "lots"), "500GB"),
        (("data", "card", "in"), "no data run here"),
        (
            ("data", "run", "mdfs", "--input", "in", "--out", "out", "--engine", "spark"),
            "local, slurm, ray, jobs",
        ),
        (
            (
                "data",
                "run",
                "mdfs",
                "--input",
                "in",
                "--out",
                "out",
                "--engine",
                "jobs",
                "--runner",
                "aistation",
            ),
            "--shared",
        ),
    ],
)
def test_what_cannot_be_asked_is_told_how_to_ask(place: Path, arguments: tuple[str, ...], words: str) -> None:
    paths = [place / part if part in ("in", "out") else part for part in arguments]
    failed = ylink(*paths, home=place)
    assert failed.returncode == 2
    assert words in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (place / "out").exists()


def test_small_commands_answer(place: Path) -> None:
    assert ylink("--version", home=place).stdout.startswith("ylink 0.")
    assert json.loads(ylink("schema", "dataset-manifest", home=place).stdout)["title"] == "DatasetManifest"
    assert {row["name"] for row in json.loads(ylink("config", "show", "--json", home=place).stdout)} >= {
        "workers",
        "port",
    }
    assert len(json.loads(ylink("data", "rules", "--json", home=place).stdout)) >= 25
    token = ylink("token", "create", "me", "--tenant", "red", home=place).stdout.strip()
    assert token.startswith("ogai-")
    assert "ogai-" not in ylink("token", "list", home=place).stdout
    assert ylink("token", "revoke", "me", home=place).returncode == 0
