"""The pages of a data set: sliders, what-if with samples, documents by rule, cost, lineage; tenants apart."""

import json
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from l3_ylink._kit.tokens import TokenStore
from l3_ylink.api import Settings, create_app, explain, run_recipe, whatif
from l3_ylink.datakit.recipe import parse_recipe
from l3_ylink.store.shelf import Shelf

SENTENCE = "the agent tells the server how the work goes and people look at the page to see that it does"
WORDS = SENTENCE.split()
RECIPE = parse_recipe(
    {
        "name": "pages",
        "sources": [
            {"name": "docs", "licence": "CC-BY-SA-4.0", "include": ["a*"]},
            {"name": "rest", "licence": "MIT"},
        ],
        "steps": [
            {"step": "extract"},
            {"step": "clean"},
            {"step": "language"},
            {"step": "quality", "rules": ["damage", "gopher_quality"]},
            {"step": "personal"},
            {"step": "exact"},
            {"step": "lines", "least_units": 4},
        ],
        "stages": {
            "collect": ["extract"],
            "coarse": ["clean", "language", "quality"],
            "fine": ["personal", "exact", "lines"],
        },
    }
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    (place / "in").mkdir()
    for number in range(8):
        lines = [" ".join(WORDS[at:] + WORDS[:at]) + f" {number} {at}." for at in range(number + 1)]
        (place / f"in/a{number}.txt").write_text(
            "\n".join(["Write to me@example.com at once today.", *lines])
        )
    (place / "in/b.txt").write_text((place / "in/a7.txt").read_text())
    run_recipe(RECIPE, input_folder=place / "in", out=place / "out", block_bytes=1_000)
    home = Settings.load(home=place / "home")
    Shelf(home.state_dir).add(kind="data", name="set", path=place / "out", tenant="red")
    for tenant in ("red", "blue"):
        (place / tenant).write_text(TokenStore(home.tokens_file).create(tenant, tenant))
    return place


def client(place: Path, tenant: str = "red") -> TestClient:
    token = (place / tenant).read_text()
    return TestClient(
        create_app(Settings.load(home=place / "home")), headers={"authorization": f"Bearer {token}"}
    )


def mark(place: Path) -> str:
    return str(client(place).get("/api/v1/datasets").json()[0]["id"])


def test_every_threshold_with_documents_is_a_slider_on_its_curve(place: Path) -> None:
    rows = client(place).get(f"/api/v1/datasets/{mark(place)}/thresholds").json()
    units = next(row for row in rows if row["setting"] == "quality.thresholds.en.min_units")
    assert (units["value"], units["count"], units["bound"]) == (50, 9, "min")
    assert units["held"] == pytest.approx(8 / 9, abs=1e-3)  # the page of one line has fewer than 50 words
    shares = [share for _, share in units["points"]]
    assert shares == sorted(shares, reverse=True)
    assert not [row for row in rows if row["setting"].startswith("quality.thresholds.zh")]
    page = client(place).get(f"/data/{mark(place)}").text
    assert page.count('type="range"') == len(rows)


def test_a_slider_gives_counts_and_samples_and_writes_nothing(place: Path) -> None:
    before = (place / "out/decisions.parquet").read_bytes()
    page = client(place).get(f"/data/{mark(place)}/whatif", params={"quality.thresholds.en.min_units": "100"})
    found = whatif(place / "out", {"quality.thresholds.en.min_units": 100})
    assert f"<b>{found.kept_before}</b> → <b>{found.kept_after}</b>" in page.text
    assert found.kept_after < found.kept_before
    assert found.samples
    assert found.samples[0]["reason"] == "min_units"
    assert found.samples[0]["text"].splitlines()[1] in page.text
    unchanged = client(place).get(
        f"/data/{mark(place)}/whatif", params={"quality.thresholds.en.min_units": "50.0"}
    )
    assert "Nothing is changed yet" in unchanged.text
    assert (place / "out/decisions.parquet").read_bytes() == before


def test_dropped_documents_are_looked_through_by_rule_beside_their_originals(place: Path) -> None:
    red, base = client(place), f"/data/{mark(place)}/look"
    first = red.get(base, params={"by": "dropped"}).text
    assert "a0.txt" in first
    assert "me@example.com" in first  # what the file says
    assert re.search(r'class="gone">Write to me@example.com', first)
    assert re.search(r'class="new">Write to &lt;EMAIL&gt;', first)
    assert re.search(r"1\s+of\s+2", first)
    assert "b.txt" in red.get(base, params={"by": "dropped", "at": 1}).text
    assert "a0.txt" in red.get(base, params={"by": "quality:min_units"}).text
    assert "same_text (1)" in first  # the other rules to choose from
    assert "Nothing here yet" in red.get(base, params={"by": "quality:min_units", "at": 1}).text
    kept = red.get(base, params={"by": "kept", "at": 3}).text
    assert re.search(r'class="cut">Write to', kept)  # a line that an earlier page has already


def test_lineage_leads_from_the_file_to_the_row_of_a_shard(place: Path) -> None:
    import pyarrow.parquet as pq

    found = explain(place / "out", "a6.txt").lineage
    assert found is not None
    assert (found.path, found.source, found.licence) == ("a6.txt", "docs", "CC-BY-SA-4.0")
    assert found.bytes == (place / "in/a6.txt").stat().st_size
    assert found.shard is not None
    rows = pq.read_table(place / "out" / found.shard)
    assert rows["id"][found.row].as_py() == "a6.txt"
    what = {step["step"]: step["what"] for step in found.steps}
    assert (what["personal"], what["lines"], what["quality"]) == ("changed", "changed", "held")
    gone = explain(place / "out", "b.txt").lineage
    assert gone is not None
    assert (gone.shard, gone.row) == (None, None)
    assert {step["step"]: step["what"] for step in gone.steps}["lines"] == "not reached"


def test_report_shows_stages_bytes_and_curves_in_both_languages(place: Path) -> None:
    report = (place / "out/report.html").read_text()
    english, chinese = ("Stages", "Thresholds", "share-alike"), ("阶段", "阈值曲线", "相同方式共享")
    for words in ("Data funnel", "数据漏斗", *english, *chinese):
        assert words in report, words
    assert "<script" not in report
    assert "http://" not in report.replace("http://www.w3.org", "")
    curves = json.loads((place / "out/curves.json").read_text())
    assert report.count('<figure class="curve">') == len(curves) > 5
    sizes = [len((place / f"in/a{number}.txt").read_bytes()) for number in range(8)]
    assert (
        f"{(sum(sizes) + sizes[-1] + 9 * (len('<EMAIL>') - len('me@example.com'))) / 1000:.3g} kB" in report
    )


def test_costs_are_told_and_other_tenants_are_told_nothing(place: Path) -> None:
    red, blue, base = client(place), client(place, "blue"), f"/api/v1/datasets/{mark(place)}"
    found = red.get(f"{base}/cost", params={"input_bytes": 1e12, "cores": 100}).json()
    assert found["core_hours"]["low"] <= found["core_hours"]["estimate"] <= found["core_hours"]["high"]
    assert {"quality", "decide"} <= {step["step"] for step in found["steps"]}
    assert "measure at least" in found["warning"]
    assert "core-hours" in red.get(f"/data/{mark(place)}/cost").text
    assert red.get(f"{base}/licences").json()["conditions"] == ["attribution", "share-alike"]
    for path in (f"{base}/cost?input_bytes=1", f"{base}/licences", f"{base}/thresholds"):
        assert blue.get(path).status_code == 404, path
    for path in ("cost", "look", "look?by=dropped", "whatif?near.threshold=1"):
        assert blue.get(f"/data/{mark(place)}/{path}").status_code == 404, path
