"""Readers of traces and cluster shapes, the command line, and the report."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.pool import Pool
from l2_aistation.simulator import cluster, read_quotas, read_trace, scheme, simulate
from l2_aistation.simulator.jobs import TraceJob, demand_of

TRACES = Path(__file__).parent / "traces"
GENERIC = "id,submit_s,duration_s,accelerators"


def written(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_philly() -> None:
    jobs = read_trace(TRACES / "philly_sample.csv.gz").jobs
    assert len(jobs) == 2000
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    assert {job.accelerators for job in jobs} <= {1, 2, 4, 8, 12, 16, 24, 32}
    assert all(job.queue and job.duration_s > 0 for job in jobs)


def test_alibaba_takes_one_variant() -> None:
    plain = read_trace(TRACES / "alibaba_pods_sample.csv.gz").jobs
    shared = read_trace(TRACES / "alibaba_pods_sample.csv.gz", variant="gpushare100").jobs
    assert 250 < len(plain) <= 300
    assert 0 < len(shared) <= 50
    assert all(0 < job.share_milli < 1000 for job in shared if job.accelerators)
    with pytest.raises(BadInput, match="variant 'none'"):
        read_trace(TRACES / "alibaba_pods_sample.csv.gz", variant="none")


def test_alibaba_runs_on_its_nodes_with_fractions() -> None:
    nodes = cluster(str(TRACES / "alibaba_nodes_sample.csv.gz"))
    jobs = read_trace(TRACES / "alibaba_pods_sample.csv.gz")
    result = simulate(jobs, nodes, scheme("fifo"))
    assert result.unfinished == 0
    assert len(result.jct_s) + result.rejected == len(jobs.jobs)


def test_sacct() -> None:
    """As `man sacct` documents the fields; steps and what never started are left out."""
    jobs = {job.id: job for job in read_trace(TRACES / "sacct_sample.txt").jobs}
    assert sorted(jobs) == ["101", "103", "104_2"]
    big = jobs["101"]
    assert (big.accelerators, big.tasks, big.duration_s, big.limit_s) == (16, 2, 7200, 14400)
    assert (big.cpu_milli, big.memory_bytes, big.user, big.queue) == (8000, 256 << 30, "ann", "gpu")
    assert (jobs["103"].accelerators, jobs["103"].memory_bytes, jobs["103"].limit_s) == (0, 8192 << 20, None)
    assert jobs["104_2"].submit_s - big.submit_s == 3600


@pytest.mark.parametrize(("text", "seconds"), [("00:30:00", 1800), ("1-00:00:01", 86401), ("02:03:04", 7384)])
def test_sacct_elapsed(tmp_path: Path, text: str, seconds: float) -> None:
    path = written(
        tmp_path, f"JobID|Submit|Elapsed|AllocTRES\n7|2026-03-01T08:00:00|{text}|gres/gpu:a100=2\n"
    )
    job = read_trace(path).jobs[0]
    assert (job.duration_s, job.accelerators) == (seconds, 2)


def test_generic_with_all_columns(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"{GENERIC},tasks,queue,user,name,priority,cpu_cores,memory_bytes,model,limit_s\n"
        "a,5,60,8,2,q,u,n,-3,1.5,1024,H100,600\nb,1,1,0,,,,,,,,,\n",
    )
    jobs = read_trace(path).jobs
    assert [job.id for job in jobs] == ["b", "a"]
    assert jobs[1] == TraceJob("a", 5, 60, 8, 2, "q", "u", "n", -3, 1500, 1024, "H100", limit_s=600)
    assert (jobs[0].accelerators, jobs[0].tasks, jobs[0].queue) == (0, 1, "default")


def test_helios_quotas_are_the_days_of_change() -> None:
    changes = read_quotas(TRACES / "helios_quota_sample.csv.gz", start_s=1000.0)
    assert changes == sorted(changes, key=lambda change: change.at_s)
    assert "total" not in {change.queue for change in changes}
    assert {change.at_s for change in changes if change.queue == "vcEwI"} == {1000.0}
    for queue in {change.queue for change in changes}:
        mine = [change.accelerators for change in changes if change.queue == queue]
        assert all(first != second for first, second in pairwise(mine))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no trace"),
        ("a,b\n1,2\n", "its header is a, b"),
        (f"{GENERIC}\n", "has no job"),
        (f"{GENERIC}\na,0,1\n", "t.csv:2: has 3 cells where the header has 4"),
        (f"{GENERIC}\na,x,1,1\n", "t.csv:2: submit_s is no number: 'x'"),
        (f"{GENERIC}\na,0,-1,1\n", "t.csv:2: duration_s is out of range"),
        (f"{GENERIC}\na,0,nan,1\n", "duration_s is out of range"),
        (f"{GENERIC}\na,0,1,1.5\n", "accelerators must be a whole number"),
        (f"{GENERIC}\na,0,1,1\na,0,1,1\n", "two jobs have one id"),
        (f"{GENERIC},tasks\na,0,1,3,2\n", "tasks 2 do not share 3 accelerators evenly"),
        ("JobID|Submit|Elapsed|AllocTRES\n7|yesterday|00:30:00|cpu=1\n", "Submit is no time"),
        ("JobID|Submit|Elapsed|AllocTRES\n7|2026-03-01T08:00:00|soon|cpu=1\n", "Elapsed is no time"),
    ],
)
def test_wrong_traces(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_trace(written(tmp_path, text))
    assert said in str(caught.value)


def test_wrong_files(tmp_path: Path) -> None:
    broken = tmp_path / "cut.csv.gz"
    broken.write_bytes(gzip.compress(f"{GENERIC}\na,0,1,1\n".encode() * 100)[:40])
    with pytest.raises(BadInput, match="cannot be read"):
        read_trace(broken)
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"\xff\xfe\x00" * 50)
    with pytest.raises(BadInput, match="cannot be read"):
        read_trace(binary)
    with pytest.raises(BadInput, match="No such file"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(BadInput, match="no variants"):
        read_trace(written(tmp_path, f"{GENERIC}\na,0,1,1\n"), variant="x")
    with pytest.raises(BadInput, match="date is no date"):
        read_quotas(written(tmp_path, "date,vc,gpus\n1.4.2020,a,3\n", "q.csv"))


def test_shapes() -> None:
    pool = Pool(cluster("1250x8/leaf32/spine8"))
    assert (len(pool), int(np.bitwise_count(pool.all_bits).sum())) == (1250, 10_000)
    assert (len(pool.leaf_names), len(pool.spine_names)) == (40, 5)
    assert len(Pool(cluster("64x8")).leaf_names) == 1


@pytest.mark.parametrize(
    "shape",
    ["", "64", "0x8", "64x65", "x8", "64x8/leaf0", "64x8/spine", "200000x8", "64x8/rack2", "none.csv"],
)
def test_wrong_shapes(shape: str) -> None:
    with pytest.raises(BadInput, match="cluster"):
        cluster(shape)


def test_nodes_from_csv(tmp_path: Path) -> None:
    path = written(tmp_path, "node,gpus,gpu_model,cpu_milli,leaf\nn1,8,H100,64000,a\nn2,0,,32000,b\n")
    nodes = cluster(str(path))
    assert [(node.id, len(node.accelerators), node.cpu_cores, node.leaf) for node in nodes] == [
        ("n1", 8, 64, "a"),
        ("n2", 0, 32, "b"),
    ]
    assert nodes[0].accelerators[0].model == "H100"
    with pytest.raises(BadInput, match="two nodes have one name"):
        cluster(str(written(tmp_path, "node,gpus\nn,1\nn,1\n", "double.csv")))
    with pytest.raises(BadInput, match="no column 'gpus'"):
        cluster(str(written(tmp_path, "node\nn\n", "short.csv")))


@settings(max_examples=100)
@given(accelerators=st.integers(1, 512), widest=st.integers(1, 16))
def test_gangs_hold_what_was_asked_for(accelerators: int, widest: int) -> None:
    demand = demand_of(TraceJob("a", 0, 1, accelerators), widest)
    assert demand.accelerators == accelerators
    assert demand.groups[0].accelerators <= widest
    assert demand.least == demand.count


def aistation(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "l2_aistation", "simulate", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_command_line_compares_policies() -> None:
    path = str(TRACES / "philly_sample.csv.gz")
    done = aistation(
        path, "--cluster", "8x8", "--jobs", "200", "--policy", "fifo", "--policy", "sjf", "--json"
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["policy"] for row in rows] == ["fifo", "sjf"]
    assert all(row["jobs"] + row["rejected"] == 200 for row in rows)
    assert rows[1]["jct_mean_h"] <= rows[0]["jct_mean_h"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cluster", "8"), "cluster: "),
        (("--cluster", "8x8", "--policy", "best"), "there is no policy 'best'"),
        (("--cluster", "8x8", "--checkpoint-s", "0"), "checkpoint_s"),
        (("--cluster", "8x8", "--variant", "v"), "no variants"),
        (("--cluster", "8x8", "--jobs", "0"), "jobs"),
        (("--cluster", "8x8", "--quotas", "none.csv"), "none.csv"),
    ],
)
def test_command_line_says_what_is_wrong(words: tuple[str, ...], said: str) -> None:
    done = aistation(str(TRACES / "philly_sample.csv.gz"), *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.count: dict[str, int] = {}
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_report_is_one_page_that_needs_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    path = tmp_path / "out.html"
    words = (
        "--cluster",
        "8x8",
        "--jobs",
        "300",
        "--policy",
        "fifo",
        "--policy",
        "easy",
        "--report",
        str(path),
    )
    done = aistation(str(TRACES / "philly_sample.csv.gz"), *words)
    assert done.returncode == 0, done.stderr
    text = path.read_text("utf-8")
    page = Page()
    page.feed(text)
    assert page.count["svg"] == 5
    assert page.count["table"] == 2
    assert "script" not in page.count
    assert page.links == []
    assert "easy" in text
    assert "NaN" not in text


def test_report_into_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    nowhere = str(tmp_path / "none" / "out.html")
    done = aistation(str(TRACES / "philly_sample.csv.gz"), "--cluster", "8x8", "--report", nowhere)
    assert done.returncode == 2
    assert "there is no folder" in done.stderr
