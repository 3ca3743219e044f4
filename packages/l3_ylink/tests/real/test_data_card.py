"""The card as others read it: the hub's card classes, `datasets`, and mlcroissant."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from l3_ylink._kit.problems import NotFound
from l3_ylink.datakit.card.card import write_card
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.datakit.run import run_recipe

pytestmark = pytest.mark.real

TEXT = "The agent tells the server how the work goes, and people of the shift look at the page to see it. "
POEM = "白日依山尽，黄河入海流。\n欲穷千里目，更上一层楼。\n"
DAY = dt.date(2026, 11, 30)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("card")
    (place / "in").mkdir()
    for number in range(6):
        (place / f"in/{number}.txt").write_text(f"{TEXT}It is page {number} of it | [so to say](x). " * 3)
    (place / "in/6.md").write_text(POEM)
    (place / "in/7.md").write_text(POEM)
    recipe = parse_recipe(
        {
            "name": "small",
            "sources": [
                {"name": "pages", "licence": "CC-BY-SA-4.0", "include": ["*.txt"]},
                {
                    "name": "poems",
                    "licence": "LicenseRef-old",
                    "url": "https://example.com",
                    "include": ["*.md"],
                },
            ],
            "steps": [
                {"step": "extract"},
                {"step": "language"},
                {"step": "quality", "rules": ["damage"]},
                {"step": "personal"},
                {"step": "exact"},
            ],
        }
    )
    run_recipe(recipe, input_folder=place / "in", out=place / "out", block_bytes=1_000)
    return place / "out"


def test_the_hub_reads_the_front_matter(run: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface-hub")
    card, _ = write_card(run, DAY)
    about = hub.DatasetCard.load(card)
    assert about.data.license == ["cc-by-sa-4.0", "other"]
    assert about.data.language == ["en", "zh"]
    assert about.data.size_categories == "n<1K"
    assert "| exact | 8 | 7 | 87.50 % |" in about.text
    assert "share-alike" in about.text
    assert "LicenseRef-old: not a known SPDX licence" in about.text.replace("\\", "")


@pytest.mark.filterwarnings("ignore")
def test_datasets_loads_the_folder(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    write_card(run, DAY)
    loaded = datasets.load_dataset(str(run), cache_dir=str(tmp_path))
    assert loaded["train"].num_rows == 7
    assert POEM.strip() in {text.strip() for text in loaded["train"]["text"]}


@pytest.mark.filterwarnings("ignore")
def test_mlcroissant_accepts_and_reads_it(run: Path) -> None:
    mlc = pytest.importorskip("mlcroissant", reason="needs mlcroissant (group tests)")
    _, machine = write_card(run, DAY)
    dataset = mlc.Dataset(jsonld=str(machine))  # raises on an error
    assert not dataset.metadata.ctx.issues.errors
    assert not dataset.metadata.ctx.issues.warnings
    rows = list(dataset.records("documents"))
    assert len(rows) == 7
    assert {row["documents/source"].decode() for row in rows} == {"pages", "poems"}


def test_the_card_of_a_run_is_the_same_again_and_lists_every_file_by_digest(run: Path) -> None:
    card, machine = write_card(run, DAY)
    before = card.read_bytes(), machine.read_bytes()
    write_card(run, DAY)
    assert (card.read_bytes(), machine.read_bytes()) == before
    files = [entry for entry in json.loads(machine.read_text())["distribution"] if "sha256" in entry]
    assert files
    assert all((run / entry["contentUrl"]).is_file() for entry in files)


def test_what_is_no_finished_run_has_no_card(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        write_card(tmp_path)
