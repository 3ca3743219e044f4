"""The cost model: against published tables, and against what proportion demands."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.cli.publish import bytes_of
from l3_ylink.datakit.cost.ledger import Ledger, StepClock
from l3_ylink.datakit.cost.measured import checks
from l3_ylink.datakit.cost.model import Rates, estimate, fit, ratio
from l3_ylink.datakit.cost.published import DATA_JUICER_MINHASH


def rates(seconds: list[float], shared: float = 0.0) -> Rates:
    size = np.full(len(seconds), 1e8)
    return Rates(
        size, size, size / 4, {"language": np.array(seconds)}, {"text": 0.0}, {"decide": shared},
        float(size.sum()),
    )  # fmt: skip


def test_the_model_agrees_with_every_published_figure() -> None:
    found = checks()
    assert len(found) >= 10
    assert all(row.ok for row in found), found


def test_four_small_rows_of_the_published_table_foretell_the_two_large_ones() -> None:
    law = fit([row for row in DATA_JUICER_MINHASH if row.bytes < 5e12])
    for row in DATA_JUICER_MINHASH:
        assert law.minutes(row.bytes, row.cores) == pytest.approx(row.minutes, rel=0.2)


def test_local_work_costs_in_proportion_to_bytes_and_nothing_else() -> None:
    once, ten = (estimate(rates([10.0, 10.0]), size, 100) for size in (1e12, 1e13))
    assert once.core_hours.estimate == pytest.approx(1e12 / 1e7 / 3600)  # 10 s for 100 MB
    assert ten.core_hours.estimate == pytest.approx(10 * once.core_hours.estimate)
    assert once.hours.estimate == pytest.approx(once.core_hours.estimate / 100)
    assert once.output_bytes.estimate == pytest.approx(2.5e11)
    assert once.megabytes_per_core_second.estimate == pytest.approx(10)


def test_work_over_all_documents_grows_faster_than_they_do_and_loses_on_many_cores() -> None:
    small, large = (estimate(rates([1.0, 1.0], 10.0), size, 640) for size in (2e8, 1e15))
    shared = [found.steps[-1].core_hours for found in (small, large)]
    assert shared[0].low == pytest.approx(shared[0].high)  # what was measured is known
    assert shared[1].low == pytest.approx(shared[0].low * 5e6)
    assert shared[1].estimate > 1.2 * shared[1].low
    more = estimate(rates([1.0, 1.0], 10.0), 1e15, 6400)
    assert more.hours.low == pytest.approx(large.hours.low / 10)
    assert more.hours.estimate > large.hours.estimate / 10


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30))
def test_an_interval_holds_its_estimate_and_equal_blocks_leave_no_doubt(seconds: list[float]) -> None:
    found = ratio(np.array(seconds), np.ones(len(seconds)))
    assert found.low <= found.estimate <= found.high
    same = ratio(np.full(5, seconds[0]), np.ones(5))
    assert same.low == pytest.approx(same.high)


def test_the_ledger_outlives_a_kill_and_counts_the_last_of_several_notes(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    clock = StepClock()
    with clock("quality"):
        sum(range(1000))
    assert list(clock.each("read", iter([1, 2]))) == [1, 2]
    ledger.task("measure", 3, 100, clock)
    ledger.task("measure", 3, 200, clock)
    with ledger.stage("decide"):
        pass
    with open(ledger.path, "a", encoding="utf-8") as stream:
        stream.write('{"stage": "measure", "blo')
    tasks, stages = ledger.read()
    assert [(key, cost.bytes) for key, cost in tasks.items()] == [(("measure", 3), 200)]
    assert set(tasks["measure", 3].seconds) == {"quality", "read"}
    assert list(stages) == ["decide"]
    assert json.loads(ledger.path.read_text().splitlines()[1])["warm"] is True


@pytest.mark.parametrize(
    ("text", "value"), [("500GB", 5e11), ("1.5 TB", 1.5e12), ("1000", 1e3), ("3P", 3e15)]
)
def test_bytes_are_written_as_people_do(text: str, value: float) -> None:
    assert bytes_of(text) == value


@pytest.mark.parametrize("text", ["", "many", "-5GB", "0", "5 XB"])
def test_what_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--bytes"):
        bytes_of(text)
