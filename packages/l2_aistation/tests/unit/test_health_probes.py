"""Probes on recorded values (no such device is here), and what a probe that hangs or breaks means."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core import cordon
from l2_aistation.core.diagnosis import LABELS
from l2_aistation.health import clock, fabric, gpu, kernel, storage
from l2_aistation.health.finding import ABSENT, BAD, OK, WARN
from l2_aistation.health.run import judge_process, look

BUS = "00000000:3B:00.0"


@pytest.mark.parametrize(
    ("device", "state", "label"),
    [
        (gpu.Device(BUS, "GPU is lost"), BAD, "gpu_off_bus"),
        (gpu.Device(BUS, "Unknown Error"), BAD, "gpu_hw_unspecified"),
        (gpu.Device(BUS, remap_failed=True), BAD, "gpu_row_remap_failure"),
        (gpu.Device(BUS, uncorrected=2), BAD, "gpu_ecc_uncorrectable"),
        (gpu.Device(BUS, remap_pending=True), WARN, "benign"),
        (gpu.Device(BUS, temperature_c=92), WARN, "straggler"),
        (gpu.Device(BUS, temperature_c=65), OK, ""),
    ],
)
def test_kinds_of_memory_errors_are_kept_apart(device: gpu.Device, state: str, label: str) -> None:
    found = gpu.judge([gpu.Device("00000000:1A:00.0", temperature_c=50), device])
    assert [(finding.state, finding.label) for finding in found] == [(state, label)]
    assert not label or label in LABELS


def test_a_driver_without_a_device_is_bad() -> None:
    assert gpu.judge([])[0].label == "cuda_init_failure"


@pytest.mark.parametrize(
    ("line", "state", "label"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", BAD, "gpu_off_bus"),
        ("NVRM: Xid (PCI:0000:3b:00): 94, pid=1, Contained: SM", WARN, "gpu_ecc_uncorrectable"),
        ("NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python, MMU Fault", OK, ""),
        ("NVRM: Xid (PCI:0000:3b:00): 63, Row remapper: pending", OK, ""),
        ("mlx5_core 0000:5c:00.0 ens1: Link down", BAD, "nic_link_flap"),
        ("python invoked oom-killer: gfp_mask=0x1", WARN, "host_oom"),
        ("usb 1-1: new high-speed USB device number 2", OK, ""),
    ],
)
def test_the_kernel_s_log(line: str, state: str, label: str) -> None:
    (found,) = kernel.judge([f"[   12.000001] {line}"])
    assert (found.state, found.label) == (state, label)


def test_a_link_of_yesterday_is_forgotten_and_a_lost_device_is_not() -> None:
    lines = [
        "[   10.000000] mlx5_core 0000:5c:00.0 ens1: Link down",
        "[   11.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
    ]
    assert [finding.label for finding in kernel.judge(lines, 90_000.0)] == ["gpu_off_bus"]
    assert len(kernel.judge(lines, 600.0)) == 2


def counts(**values: int) -> dict[str, dict[str, int]]:
    return {"mlx5_0/1": {**dict.fromkeys(fabric.COUNTERS, 7), **values}}


@pytest.mark.parametrize(
    ("now", "seconds", "state", "label"),
    [
        (counts(), 3600, OK, ""),
        (counts(symbol_error=7 + 100), 3600, OK, ""),
        (counts(symbol_error=7 + 200), 3600, WARN, "nic_hw_fault"),
        (counts(symbol_error=7 + 20), 60, WARN, "nic_hw_fault"),
        (counts(link_downed=8), 3600, WARN, "nic_link_flap"),
        (counts(link_downed=12), 3600, BAD, "nic_link_flap"),
        (counts(link_error_recovery=8), 3600, WARN, "nic_link_flap"),
        (counts(link_downed=0), 3600, OK, ""),  # the driver was loaded again: counters begin at 0
    ],
)
def test_ports_are_judged_by_rates(
    now: dict[str, dict[str, int]], seconds: float, state: str, label: str
) -> None:
    found = fabric.judge(counts(), now, seconds)
    assert [(finding.state, finding.label) for finding in found] == [(state, label)]


def test_the_first_look_at_a_port_says_nothing() -> None:
    assert fabric.judge({}, counts(link_downed=900), 0.0)[0].state == OK


def test_counters_are_read_as_the_kernel_lays_them_out(tmp_path: Path) -> None:
    folder = tmp_path / "mlx5_2" / "ports" / "1" / "counters"
    folder.mkdir(parents=True)
    (folder / "symbol_error").write_text("12\n")
    (folder / "link_downed").write_text("N/A (no PMA)\n")
    assert fabric.read(tmp_path) == {"mlx5_2/1": {"symbol_error": 12}}


def test_folders_are_written_and_read(tmp_path: Path) -> None:
    assert storage.look([tmp_path])[0].state in (OK, WARN)
    assert list(tmp_path.iterdir()) == []
    missing = storage.look([tmp_path / "gone"])[0]
    assert (missing.state, missing.label) == (BAD, "storage_io_error")


@pytest.mark.parametrize(
    ("state", "status", "error_s", "expected"),
    [(0, 0x2001, 0.004, OK), (5, 0x40, 16.0, WARN), (0, 0x2001, 3.0, WARN)],
)
def test_a_clock_that_nothing_disciplines(state: int, status: int, error_s: float, expected: str) -> None:
    assert clock.judge(state, status, error_s)[0].state == expected


def test_the_clock_of_this_machine_answers() -> None:
    assert clock.look()[0].state in (OK, WARN, ABSENT)


def test_a_probe_that_hangs_is_the_finding() -> None:
    """NVSentinel#1748: failing memory makes the probe itself hang, and it was never reported."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    (found,) = judge_process("gpu", command, 0.5)
    assert (found.state, found.label) == (BAD, "gpu_hw_unspecified")
    assert "hangs" in found.evidence


def test_a_probe_that_breaks_is_told_and_takes_no_node_out() -> None:
    command = [sys.executable, "-c", "raise OSError('no such register')"]
    (found,) = judge_process("gpu", command, 20.0)
    assert found.state == WARN
    assert "no such register" in found.evidence


def test_this_machine_is_looked_at(tmp_path: Path) -> None:
    found = look(["storage", "clock", "gpu"], [tmp_path])
    assert {finding.probe for finding in found} == {"storage", "clock", "gpu"}


def test_a_budget_of_cordons_is_kept() -> None:
    bad = {f"n{number}": "gpu_off_bus" for number in range(4)}
    verdict = cordon.decide(bad, ["n9"], 20, [0.0], 1000.0)
    assert list(verdict.cordon) == ["n0", "n1", "n2"]
    assert list(verdict.refused) == ["n3"]
    assert "budget 20 %" in verdict.refused["n3"]


def test_half_of_the_nodes_at_once_opens_the_breaker() -> None:
    bad = {f"n{number}": "nic_link_flap" for number in range(5)}
    verdict = cordon.decide(bad, [], 10, [100.0] * 5, 120.0)
    assert verdict.open
    assert verdict.cordon == {}
    assert "what they share" in verdict.refused["n0"]
    assert cordon.decide(bad, [], 10, [100.0] * 5, 120.0 + cordon.WINDOW_S).cordon


@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 50))
def test_never_more_than_the_budget_is_out(nodes: int, bad: int, out: int) -> None:
    names = [f"n{number}" for number in range(nodes)]
    cordoned = names[: min(out, nodes)]
    verdict = cordon.decide(dict.fromkeys(names[:bad], "x"), cordoned, nodes, [], 0.0)
    assert set(verdict.cordon) | set(verdict.refused) == set(names[:bad]) - set(cordoned)
    if verdict.cordon:
        assert len(verdict.cordon) + len(cordoned) <= max(1, nodes * cordon.BUDGET)
