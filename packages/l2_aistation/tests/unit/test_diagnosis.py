"""Rules by example: each label with lines that mean it, and near misses that do not."""

from __future__ import annotations

import gzip
import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l2_aistation._kit.problems import BadInput
from l2_aistation.core.diagnosis import LABELS, Stream, diagnose_lines, name_cause, only_consequences
from l2_aistation.core.diagnosis.rules import RULES
from l2_aistation.core.healing import Evidence, LostNode, RankExit, Stall
from l2_aistation.log_files import diagnose

GPU = "0000:3b:00"
TRACE = 'Traceback (most recent call last):\n  File "/job/run.py", line 9, in <module>\n    main()\n'

SECOND = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=300, OpType=ALLREDUCE)"

# Written for this table in the form that the programs named print; no line is taken from anywhere.
CASES: list[tuple[str, str]] = [
    ("gpu_off_bus", f"[ 100.000001] NVRM: Xid (PCI:{GPU}): 79, pid='<unknown>', GPU has fallen off the bus."),
    (
        "gpu_off_bus",
        f"[ 1.000001] NVRM: The NVIDIA GPU {GPU}.0\n NVRM: fallen off the bus and is not responding",
    ),
    ("gpu_ecc_uncorrectable", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 48, pid=7, DBE (double bit error)"),
    ("gpu_ecc_uncorrectable", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 95, pid=7, Uncontained ECC error"),
    ("gpu_ecc_uncorrectable", TRACE + "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ("gpu_row_remap_failure", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 64, Row remapper: failed"),
    ("gpu_gsp_timeout", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 120, GSP task panic"),
    ("gpu_app_fault", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 31, pid=7, name=python, MMU Fault"),
    ("gpu_app_fault", TRACE + "RuntimeError: CUDA error: an illegal memory access was encountered"),
    ("nvlink_error", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 74, pid=7, NVLink: fatal error detected on link 2"),
    ("nvlink_error", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 147, TREX Fatal XC0 i0 Link 03 (0x1)"),
    (
        "nvlink_error",
        f"[ 9.0] NVRM: Xid (PCI:{GPU}): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node)",
    ),
    ("nvswitch_error", "[ 9.000000] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 04 egress"),
    ("cuda_init_failure", TRACE + "RuntimeError: No CUDA GPUs are available"),
    ("cuda_oom", TRACE + "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("cuda_device_assert", "/x/Loss.cu:92: nll: block: [0,0,0] Assertion `t >= 0` failed."),
    (
        "nccl_timeout",
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=BROADCAST)",
    ),
    (
        "nccl_collective_desync",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=900, X)\n" + SECOND,
    ),
    (
        "nccl_init_failure",
        "n4:11:12 [0] socket.h:40 NCCL WARN Connect to 10.1.2.3<5> failed : No route to host",
    ),
    ("hang", "[PG 0 Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress"),
    ("peer_lost", TRACE + "[rank1]: RuntimeError: [pair.cc:1] Connection closed by peer [10.0.0.7]:900."),
    (
        "ib_retry_exceeded",
        "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=0",
    ),
    (
        "ib_protection_error",
        "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with status=10 opcode=0",
    ),
    ("nic_link_flap", "[ 9.000000] mlx5_core 0000:5c:00.0 ens1: Link down"),
    (
        "nic_hw_fault",
        "[ 9.000000] mlx5_core 0000:5c:00.0: Port module event[error]: module 1, Cable error, Bus stuck",
    ),
    (
        "rendezvous_timeout",
        TRACE + "torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients",
    ),
    (
        "rendezvous_host_lost",
        TRACE + "torch.x.RendezvousConnectionError: The connection to the C10d store has failed.",
    ),
    (
        "node_lost",
        "slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE ***",
    ),
    (
        "process_killed",
        "E api.py:1] failed (exitcode: -9) local_rank: 3 (pid: 812) of binary: /usr/bin/python",
    ),
    (
        "dataloader_worker_killed",
        TRACE + "RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed.",
    ),
    ("host_oom", "[ 9.000000] Out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB"),
    ("host_oom", TRACE + "MemoryError"),
    (
        "shm_exhausted",
        TRACE
        + "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. out of shared memory",
    ),
    ("segfault", "Fatal Python error: Segmentation fault"),
    ("loss_nan", "step 90 loss 0.8\nstep 91 loss: nan"),
    ("loss_nan", " iteration 7/ 9 | loss scale: 1.0 | grad norm: inf | number of nan iterations: 0"),
    (
        "loss_spike",
        "\n".join(f"iteration {n} | lm loss: {v}" for n, v in enumerate([2.5, 2.4, 2.45, 2.4, 4.1, 4.3])),
    ),
    (
        "loss_scale_exhausted",
        TRACE + "Exception: Current loss scale already at minimum - cannot decrease. Exiting.",
    ),
    (
        "straggler",
        "\n".join(f"step {n} | step time: {v}" for n, v in enumerate([10, 10, 10.1, 10, 11, 11.2, 11.1])),
    ),
    (
        "checkpoint_corrupt",
        TRACE + "RuntimeError: PytorchStreamReader failed reading zip archive: not a ZIP archive",
    ),
    ("checkpoint_corrupt", TRACE + "safetensors_rust.SafetensorError: Error while deserializing header"),
    (
        "checkpoint_mismatch",
        TRACE + "RuntimeError: Error(s) in loading state_dict for GPT:\n\tsize mismatch for w: x",
    ),
    ("disk_full", TRACE + "OSError: [Errno 28] No space left on device: '/ckpt/step-9.pt'"),
    ("disk_full", TRACE + "OSError: [Errno 122] Disk quota exceeded"),
    ("storage_unavailable", "[ 9.000000] nfs: server 10.0.0.9 not responding, still trying"),
    ("storage_unavailable", TRACE + "OSError: [Errno 116] Stale file handle: '/data'"),
    ("storage_unavailable", "the shared folder /srv/storage is not there"),
    ("storage_io_error", "[ 9.000000] blk_update_request: critical medium error, dev nvme0n1, sector 5"),
    ("permission_denied", TRACE + "PermissionError: [Errno 13] Permission denied: '/data/x'"),
    ("data_error", TRACE + "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
    ("data_error", TRACE + "PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'"),
    ("user_code_error", TRACE + "KeyError: 'labels'"),
    ("user_code_error", TRACE + "[rank3]: mypkg.errors.BadShapeError: 3 is not 4"),
    ("user_code_error", "训练开始\n" + TRACE + "ValueError: 批次为空"),
    ("env_mismatch", TRACE + "ModuleNotFoundError: No module named 'flash_attn'"),
    (
        "user_code_error",
        "  File \"run.py\", line 3\n    def f(\n         ^\nSyntaxError: '(' was never closed",
    ),
    ("env_mismatch", "/bin/sh: 1: deepspeed: command not found"),
    ("env_mismatch", "python3: can't open file '/job/trian.py': [Errno 2] No such file or directory"),
    ("port_in_use", TRACE + "OSError: [Errno 98] Address already in use"),
    (
        "preempted",
        "slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
    ),
    (
        "time_limit",
        "slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
    ),
    ("benign", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 63, Row remapper: pending"),
    ("benign", f"[ 9.000000] NVRM: Xid (PCI:{GPU}): 145, RLW Nonfatal XC1 i0 Link 07 (0x1)"),
    (
        "benign",
        "[2026-01-01 00:00:00,000] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536",
    ),
    ("gpu_off_bus", "3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff)"),
    ("gpu_gsp_timeout", "[ 84.000001] NVRM: GPU3 RPC event history (CPU <- GSP):"),
    ("nvlink_error", f"[ 9.0] NVRM: Xid (PCI:{GPU}): 137, RLW_RXPIPE interrupt hit on link 3: PRIV Error"),
    ("nvlink_error", f"[ 9.0] NVRM: Xid (PCI:{GPU}): 45, pid=7, Ch 00000001 caused by previous Xid 149"),
    (
        "cuda_init_failure",
        TRACE + "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable",
    ),
    ("cuda_oom", "n1:1:2 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'"),
    (
        "ib_retry_exceeded",
        "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 0, len 0",
    ),
    (
        "ib_protection_error",
        "n1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 4, opcode 9, len 9",
    ),
    (
        "nic_link_flap",
        """n1:1:2 [0] NCCL WARN NET/IB : Got async event : port error
n2:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1> with error 12, opcode 2, len 1""",
    ),
    ("nic_hw_fault", "n1:1:2 [0] NCCL WARN NET/IB : Got async event : local catastrophic error"),
    (
        "nccl_init_failure",
        "n5:1:1 [6] NCCL WARN socketPollConnect: Connect to 10.0.0.4<9> returned 113(No route to host)",
    ),
    (
        "shm_exhausted",
        "n1:1:2 [3] NCCL WARN Error: failed to extend /dev/shm/nccl-A to 9 bytes: No space left on device",
    ),
    (
        "node_lost",
        "The node with node id: 1 has been marked dead because the detector has missed too many heartbeats",
    ),
    ("loss_nan", "iter 30: loss nan, time 1019.95ms"),
    ("loss_nan", TRACE + "AssertionError: Rank 3: found NaN in local grad norm in backward pass. Device: 3"),
    ("preempted", "GCP Metadata Service says termination is imminent"),
    (
        "rendezvous_stale_store",
        "Waiting in store based barrier for rank: 0, key: k:1 (world_size=4, worker_count=8, timeout=1)",
    ),
    (
        "checkpoint_mismatch",
        TRACE + "ZeRORuntimeException: The checkpoint being loaded used a DP world size of 256 but it is 2.",
    ),
    (
        "storage_unavailable",
        "Jun 17 20:18:08 n2 kernel: INFO: task train:788 blocked for more than 120 seconds.",
    ),
    (
        "env_mismatch",
        TRACE + "AssertionError: \nThe NVIDIA driver on your system is too old (found version 10010).",
    ),
    ("benign", "[rank0]:[W515] WARNING: process group has NOT been destroyed before it is being destructed."),
    (
        "straggler",
        "\n".join(
            f"Iteration took {seconds} s." for seconds in (32, 31, 30, 33, 32, 31, 102, 101, 105, 103, 102)
        ),
    ),
]

# Lines that name a thing without saying that it broke.
NEAR_MISSES = [
    "[ 9.000000] mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE",
    "[ 9.000000] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64 570.158.01",
    "Epoch 3: loss=2.31 out of memory budget 80% used",
    "INFO checkpoint saved to /ckpt/step-100 in 1.2 s",
    "INFO: NCCL INFO Connected all rings, comm 0x1 rank 0 nranks 8",
    "step 12 loss 2.5 grad_norm 1.2 nan_skipped 0",
    "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB",
    "W Sending process 30693 closing signal SIGTERM",
    "world size 8, checkpoint every 100 steps, resuming from step 40",
    "the learning rate schedule restarts after a plateau",
    "row 7 of the code corpus is about SyntaxError: how to mend it",
    "iteration 5 | lm loss: 2.500 | step time: 10.0",
    "Error handling in section 3 of the manual: ValueError is raised for empty batches",
    "内存充足,继续训练",
]


@pytest.mark.parametrize(("label", "text"), CASES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CASES)])
def test_a_log_gets_its_label(label: str, text: str) -> None:
    found = diagnose_lines([Stream("log", text.splitlines())])
    assert found.cause.label == label
    assert found.cause.category == LABELS[label].category
    assert found.cause.action in {LABELS[label].action, "watch"}
    assert found.cause.evidence
    assert (
        any(found.cause.evidence[0] in line for line in text.splitlines())
        or label == "nccl_collective_desync"
    )


# NVIDIA's catalogue: 94 is contained (restart the application), 48 and 95 are not; 63 waits for the next
# reset; Nonfatal NVLink events need no action now.
@pytest.mark.parametrize(
    ("code", "rest", "action"),
    [
        (94, "Contained: SM (0x1)", "restart"),
        (95, "Uncontained: LTC TAG", "replace"),
        (48, "DBE (double bit error)", "replace"),
        (63, "Row remapper: new row marked for remapping, reset gpu to activate.", "watch"),
        (64, "Row remapper: failed", "replace"),
        (145, "RLW Nonfatal XC1 i0 Link 07", "watch"),
        (149, "NETIR Fatal XC0 i0 Link 03", "reset"),
    ],
)
def test_the_form_of_an_xid_decides_the_action(code: int, rest: str, action: str) -> None:
    line = f"[ 9.000000] NVRM: Xid (PCI:{GPU}): {code}, pid=7, {rest}"
    assert diagnose_lines([Stream("dmesg", [line])]).cause.action == action


def test_digits_in_a_line_never_hide_a_sign() -> None:
    """Lines are looked up by their form without digits; a number that matters is still read."""
    quiet = [f"[ {n}.000000] NVRM: Xid (PCI:{GPU}): 45, pid={n}, Ch 0000{n}" for n in range(50)]
    found = diagnose_lines([Stream("dmesg", [*quiet, f"[ 99.0] NVRM: Xid (PCI:{GPU}): 79, pid=7, Ch 00001"])])
    assert found.cause.label == "gpu_off_bus"


@pytest.mark.parametrize("line", NEAR_MISSES)
def test_a_near_miss_is_unknown(line: str) -> None:
    found = diagnose_lines([Stream("log", [line] * 3)])
    assert (found.cause.label, found.cause.confidence) == ("unknown", 0.0)


def test_a_cause_hides_in_a_long_log_of_near_misses() -> None:
    rng = random.Random(0)
    for label, text in CASES:
        if label in ("benign", "straggler", "loss_spike"):
            continue
        lines = [rng.choice(NEAR_MISSES) for _ in range(300)]
        place = rng.randrange(len(lines))
        lines[place:place] = text.splitlines()
        assert diagnose_lines([Stream("log", lines)]).cause.label == label


def test_every_rule_is_of_the_vocabulary_and_can_match() -> None:
    """A needle that no match contains would switch its rule off."""
    assert {rule.label for rule in RULES} <= set(LABELS)
    seen = {label for label, _text in CASES}
    assert {rule.label for rule in RULES} - seen <= {"gpu_hw_unspecified", "rendezvous_stale_store"}


def test_who_where_and_which_device() -> None:
    lines = [
        f"Apr 30 13:50:10 gpu17 kernel: [ 9.000000] NVRM: Xid (PCI:{GPU}): 79, GPU has fallen off the bus."
    ]
    assert diagnose_lines([Stream("messages", lines)]).cause.node == "gpu17"
    assert (
        diagnose_lines([Stream("x", ["[rank5]: torch.OutOfMemoryError: CUDA out of memory."])]).cause.rank
        == 5
    )
    assert (
        diagnose_lines([Stream("x", [CASES[17][1].splitlines()[1], *CASES[17][1].splitlines()])]).cause.rank
        == 1
    )


def test_the_first_cause_wins_over_its_consequences_across_logs() -> None:
    """Kernel and ranks, whatever the order of the files."""
    kernel = Stream("dmesg", [CASES[0][1]], node="n2")
    ranks = [
        Stream(f"rank{n}", (TRACE + "RuntimeError: Connection closed by peer [10.0.0.2]:7").splitlines())
        for n in (0, 1)
    ]
    for order in ([kernel, *ranks], [*ranks, kernel]):
        found = diagnose_lines(order)
        assert (found.cause.label, found.cause.node) == ("gpu_off_bus", "n2")
        assert "consequence (peer_lost)" in found.cause.evidence[-1]


def test_of_two_roots_the_earlier_one_is_the_cause() -> None:
    late = Stream("a", ["2026-01-01 10:00:09 OSError: [Errno 28] No space left on device"])
    early = Stream("b", ["2026-01-01 10:00:01 nfs: server 10.0.0.9 not responding, still trying"])
    assert diagnose_lines([late, early]).cause.label == "storage_unavailable"


# ---- from the evidence of an attempt --------------------------------------------------------------


def exit_of(
    rank: int, at: float, text: str = "", code: int | None = 1, signal: int | None = None
) -> RankExit:
    return RankExit(rank, f"n{rank}", at, None if signal else code, signal, False, tuple(text.splitlines()))


REFUSED = "error: data: no such folder: 数据\n  why: it was moved\n  try: ylink plan pretrain\n\n"
USAGE = "usage: train.py [-h] --steps N\ntrain.py: error: argument --steps: invalid int value: 'x'"
PEER = TRACE + "RuntimeError: [pair.cc:5] Connection reset by peer"


def evidence(*exits: RankExit, lost: tuple[LostNode, ...] = (), stalls: tuple[Stall, ...] = ()) -> Evidence:
    return Evidence("job", 1, 4, exits, stalls, lost)


@pytest.mark.parametrize(
    ("label", "rank", "node", "what"),
    [
        ("process_killed", 2, "n2", evidence(exit_of(0, 10.0, PEER), exit_of(2, 10.1, signal=9))),
        (
            "host_oom",
            2,
            "n2",
            evidence(exit_of(2, 10.0, "kernel: Out of memory: Killed process 7 (python)", signal=9)),
        ),
        ("segfault", 1, "n1", evidence(exit_of(1, 10.0, signal=11), exit_of(0, 10.1, PEER))),
        ("node_lost", None, "n3", evidence(exit_of(0, 10.0, PEER), lost=(LostNode("n3", 9.5, 12.5),))),
        (
            "user_code_error",
            0,
            "n0",
            evidence(exit_of(1, 9.9, PEER), exit_of(0, 10.0, TRACE + "KeyError: 'x'")),
        ),
        ("peer_lost", 1, "n1", evidence(exit_of(1, 10.0, PEER))),
        (
            "hang",
            1,
            "n1",
            evidence(stalls=(Stall(1, "n1", 5.0, "hang", ("process 7 is stopped (state T)",)),)),
        ),
        ("loss_nan", 0, "n0", evidence(stalls=(Stall(0, "n0", 5.0, "nan"),))),
        (
            "env_mismatch",
            0,
            "n0",
            evidence(exit_of(0, 1.0, "cannot start deepspeed: no such file", code=127)),
        ),
        (
            "cuda_oom",
            1,
            "n1",
            evidence(
                exit_of(0, 9.0, PEER), exit_of(1, 9.1, TRACE + "torch.OutOfMemoryError: CUDA out of memory.")
            ),
        ),
        ("user_code_error", 0, "n0", evidence(exit_of(0, 1.0, "loading\n" + REFUSED, code=2))),
        ("user_code_error", 2, "n2", evidence(exit_of(1, 1.0, PEER), exit_of(2, 1.1, REFUSED, code=2))),
        ("user_code_error", 0, "n0", evidence(exit_of(0, 1.0, USAGE, code=2))),
        ("unknown", None, None, evidence(exit_of(0, 1.0, REFUSED, code=1))),
        ("unknown", None, None, evidence(exit_of(0, 1.0, REFUSED, code=3))),
        ("unknown", None, None, evidence(exit_of(0, 1.0, REFUSED + "\nstep 4 loss 2.1", code=2))),
        ("unknown", None, None, evidence(exit_of(0, 1.0, "0 errors: all well", code=2))),
        ("unknown", None, None, evidence(exit_of(0, 1.0, "  error: indented, of somebody else", code=2))),
        ("unknown", None, None, evidence(exit_of(0, 1.0, "step 3", code=3))),
        ("unknown", None, None, evidence()),
    ],
)
def test_the_cause_of_an_attempt(label: str, rank: int | None, node: str | None, what: Evidence) -> None:
    cause = name_cause(what)
    assert (cause.label, cause.rank, cause.node) == (label, rank, node)
    assert cause.action == LABELS[label].action


def test_an_unknown_end_is_told_with_its_last_words() -> None:
    told = name_cause(evidence(exit_of(0, 1.0, "step 3\n显存不够了\n\n", code=3), exit_of(1, 1.1, code=4)))
    assert told.evidence == ("rank 0 on n0 ended with code 3: 显存不够了", "rank 1 on n1 ended with code 4")


def test_a_users_error_before_a_node_went_away_stays_the_users() -> None:
    early = exit_of(0, 1.0, TRACE + "OSError: [Errno 28] No space left on device")
    assert name_cause(evidence(early, lost=(LostNode("n3", 9.5, 12.5),))).label == "disk_full"


def test_the_power_state_is_evidence() -> None:
    cause = name_cause(evidence(lost=(LostNode("n3", 9.5, 12.5, power="off"),)))
    assert "power is off" in cause.evidence[1]


def test_consequences_alone_ask_to_wait_for_the_cause() -> None:
    peers = (exit_of(0, 10.0, PEER), exit_of(1, 10.1, PEER))
    assert only_consequences(evidence(*peers))
    assert not only_consequences(evidence(*peers, exit_of(2, 10.2, signal=9)))
    assert not only_consequences(evidence(*peers, lost=(LostNode("n3", 9.5, 12.5),)))
    assert not only_consequences(evidence())


# ---- files ----------------------------------------------------------------------------------------


def test_a_file_in_any_encoding(tmp_path: Path) -> None:
    (tmp_path / "gbk.log").write_bytes("训练失败\n".encode("gb18030") + (TRACE + "KeyError: 'x'\n").encode())
    (tmp_path / "packed.log.gz").write_bytes(gzip.compress(CASES[0][1].encode()))
    assert diagnose([tmp_path / "gbk.log"]).cause.label == "user_code_error"
    assert diagnose([tmp_path / "gbk.log", tmp_path / "packed.log.gz"]).cause.label == "gpu_off_bus"


@given(st.binary(max_size=3000))
def test_noise_never_breaks_it(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    path = tmp_path_factory.mktemp("noise") / "x.log"
    path.write_bytes(noise)
    found = diagnose([path])
    assert found.cause.label in LABELS
    json.dumps(found.as_json())


def test_an_empty_log_is_unknown_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert diagnose([tmp_path / "empty"]).cause.label == "unknown"
    with pytest.raises(BadInput, match="No such file"):
        diagnose([tmp_path / "absent"])
    with pytest.raises(BadInput, match="no file is given"):
        diagnose([])


def test_a_packed_log_that_is_damaged_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(random.Random(0).randbytes(4000)))
    packed[1000:1100] = b"\xff" * 100
    for name, content in {"torn": packed[:2000], "bits": packed, "other": b"no gzip at all"}.items():
        (tmp_path / f"{name}.gz").write_bytes(bytes(content))
        with pytest.raises(BadInput, match="cannot be read"):
            diagnose([tmp_path / f"{name}.gz"])


def test_a_time_stamp_that_is_no_time_is_passed_over() -> None:
    line = "2026-13-45 99:99:99 OSError: [Errno 28] No space left on device"
    assert diagnose_lines([Stream("log", [line])]).cause.label == "disk_full"


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    with open(tmp_path / "big", "wb") as stream:
        stream.writelines(b"x" * (1 << 20) for _ in range(64))
        stream.write(b"\n" + CASES[0][1].encode())
    assert diagnose([tmp_path / "big"]).cause.label == "gpu_off_bus"


def test_it_reads_fast_enough_to_be_used_on_big_logs() -> None:
    lines = [NEAR_MISSES[n % len(NEAR_MISSES)] for n in range(60_000)]
    begun = time.process_time()
    diagnose_lines([Stream("log", lines)])
    assert (
        len(lines) / (time.process_time() - begun) > 20_000
    )  # lines a CPU second; about 10 times that is usual
