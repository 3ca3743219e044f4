"""Whatever a file holds, diagnosis answers: no exception, bounded evidence, bounded time."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st
from l1_podsys.core.diagnosis import diagnose
from l1_podsys.service.texts import decode

WORDS = [
    "NVRM: Xid (PCI:0000:17:00): ", "79", "63, ", "fallen off the bus", "Remapped Rows",
    "GPU 00000000:17:00.0", "        Pending : Yes", "Matrix (us)", "  0  1.0 2.0 9.9", "\n", "\n", "\t",
    "P2P=Enabled Latency (P2P Writes) Matrix (us)",
    "#  Rank  0 Pid 1 on h device 0 [0x1] NVIDIA H100", "PFC configuration:", " priority 0 1\n enabled 0 1",
    "ACSCtl: SrcValid+ ReqRedir+", "17:00.0 3D controller: x", "LnkSta: Speed 1GT/s (downgraded), Width x1",
    "eth0: lost carrier", "Surprise Down Error", "infiniband/a/ports/1/hw_counters/out_of_sequence:99999",
    "\x00", "\ufffd", "掉卡", "| Persistence Mode  | Fail",
]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=20)), max_size=40))
def test_no_text_breaks_it(parts: list[str]) -> None:
    for finding in diagnose({"a": "".join(parts), "b": " ".join(parts)}):
        assert 0 < finding.confidence <= 1
        assert len(finding.evidence) <= 24


@given(st.binary(max_size=300))
def test_any_bytes_are_read(data: bytes) -> None:
    diagnose({"log": decode(data)})


def test_a_long_log_takes_seconds_not_minutes() -> None:
    line = "Aug 17 06:18:01 node01 kernel: [ 12.345678] driver: a line of ordinary length with numbers 0x1f\n"
    log = line * 100_000 + "[ 9.9] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n"
    start = time.process_time()
    (finding,) = diagnose({"log": log})
    assert finding.fault == "gpu-off-bus"
    assert time.process_time() - start < 20
