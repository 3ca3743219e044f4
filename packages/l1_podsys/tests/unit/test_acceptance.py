"""Which pairs are measured, what values mean, and the tree of the report."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l1_podsys.core.acceptance import Measured, build_report, judge, rounds
from l1_podsys.core.acceptance.report import topology
from l1_podsys.core.acceptance.verdicts import Value, clock_result
from l1_podsys.core.facts import Facts
from l1_podsys.core.inventory import Host, Inventory, Location
from l1_podsys.core.planning import HostPlan, Profile
from l1_podsys.core.planning.profile import Floor


@given(st.integers(0, 8))
def test_few_hosts_meet_each_other_once(count: int) -> None:
    hosts = [f"n{i}" for i in range(count)]
    plan = rounds(hosts)
    met = [frozenset(pair) for pairs in plan for pair in pairs]
    assert sorted(map(sorted, met)) == sorted(map(sorted, combinations(hosts, 2)))
    assert len(plan) == (0 if count < 2 else count - 1 if count % 2 == 0 else count)


@given(st.integers(9, 200))
def test_many_hosts_are_each_measured_a_few_times(count: int) -> None:
    hosts = [f"n{i}" for i in range(count)]
    times = dict.fromkeys(hosts, 0)
    seen = set()
    for pairs in rounds(hosts):
        busy = [host for pair in pairs for host in pair]
        assert len(busy) == len(set(busy))
        for pair in pairs:
            assert frozenset(pair) not in seen
            seen.add(frozenset(pair))
        for host in busy:
            times[host] += 1
    assert 2 <= min(times.values()) <= max(times.values()) <= 2 * count.bit_length()


def verdicts(name: str, values: list[float | None], **expect: Floor) -> list[str]:
    rows = [
        Value(f"n{i}", None, value, "" if value is not None else "no answer")
        for i, value in enumerate(values)
    ]
    return [result.verdict for result in judge(name, rows, expect)]


def test_a_host_far_below_the_others_stands_out() -> None:
    assert verdicts("cpu", [2000, 2010, 1990, 1500, 900]) == ["pass", "pass", "pass", "warn", "fail"]


def test_a_small_latency_is_fine_whatever_the_others_have() -> None:
    assert verdicts("network-latency", [20, 22, 21, 480]) == ["pass"] * 4
    assert verdicts("network-latency", [200, 220, 210, 9000])[-1] == "fail"


def test_bounds_of_the_profile_have_the_last_word() -> None:
    assert verdicts("cpu", [900, 2000], cpu=Floor(at_least=1000)) == ["fail", "pass"]
    assert verdicts("disk-fsync", [9, 1], **{"disk-fsync": Floor(at_most=5)}) == ["fail", "pass"]


def test_what_could_not_be_measured_never_passes() -> None:
    assert verdicts("cpu", [2000, 2000, None, 2000])[2] == "unknown"
    assert verdicts("network-bandwidth", [10, 10, None, 10])[2] == "fail"


def test_two_hosts_are_not_compared_with_each_other() -> None:
    assert verdicts("cpu", [2000, 10]) == ["pass", "pass"]


@pytest.mark.parametrize(
    ("offset", "error", "verdict"),
    [(0.01, 0.001, "pass"), (0.2, 0.001, "warn"), (9.0, 0.1, "fail"), (0.2, 0.19, "pass")],
)
def test_a_clock_counts_beyond_its_uncertainty(offset: float, error: float, verdict: str) -> None:
    assert clock_result("n", offset, error).verdict == verdict


def host(number: int, leaf: str, site: str = "a") -> Host:
    return Host(
        id=f"n{number}",
        hostname=f"node{number}",
        address=f"10.0.0.{number}",
        location=Location(site=site, leaf=leaf),
    )


def test_the_tree_goes_from_site_to_node() -> None:
    tree = topology([host(1, "leaf2"), host(2, "leaf1"), host(3, "leaf2")])
    assert (tree.level, tree.name) == ("site", "a")
    (spine,) = tree.children
    assert [leaf.name for leaf in spine.children] == ["leaf1", "leaf2"]
    assert [node.name for node in spine.children[1].children[0].children] == ["n1", "n3"]
    assert spine.children[0].children[0].level == "rack"
    assert topology([host(1, "l"), host(2, "l", site="b")]).level == "root"


def test_a_host_that_did_not_answer_is_a_failed_check_not_a_node() -> None:
    facts = Facts.model_validate(
        {"schema": "podsys.facts/v1", "hostname": "node1", "os": {"id": "d", "name": "D"}, "kernel": "6",
         "arch": "x", "cpu": {"cores": 1}, "memory": {"total_bytes": 1}, "python": "3"}
    )  # fmt: skip
    report = build_report(
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        version="0",
        inventory=Inventory(cluster="c", hosts=[host(1, "l"), host(2, "l")]),
        profile=Profile(name="p", versions={"nvidia-driver": "580.65.06"}),
        facts={"n1": facts},
        drift={"n1": HostPlan(id="n1", hostname="node1")},
        measured=Measured(unreachable={"n2": "no route"}),
    )
    assert [node.id for node in report.nodes] == ["n1"]
    rows = {(check.name, check.node): check for check in report.checks}
    assert rows["reachable", "n2"].verdict == "fail"
    assert rows["reachable", "n2"].evidence == ["no route"]
    assert rows["version", "n1"].verdict == "fail"
    assert rows["drift", "n1"].verdict == "pass"
