"""What each label looks like in a log, as data.

`weight` orders what is found together: from 80 up a root cause, judged by time; below, a sign that
counts only where no root is seen; 20 is a mere consequence of something elsewhere; 10 is noise.
`needles` are fixed strings, one of which every match contains: they make the search fast.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ROOT = 80
CONSEQUENCE = 40
"""Up to this weight a sign may be the echo of a fault at another rank or node."""


class Rule(NamedTuple):
    """One pattern of a label; `action` where this form asks for another than the label does."""

    label: str
    weight: int
    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    action: str | None = None


def _rule(label: str, weight: int, pattern: str, needles: str) -> Rule:
    return Rule(label, weight, re.compile(pattern), tuple(needles.split("|")))


def _xid(label: str, weight: int, codes: str, rest: str = "", action: str | None = None) -> Rule:
    rule = _rule(label, weight, rf"Xid \(PCI:[^)]*\): (?:{codes}),{rest}", "Xid (")
    return rule._replace(action=action)


_MORE_WORKERS = "|".join(f"world_size={size}, worker_count=[{size + 1}-9]" for size in range(1, 9))
"""More have come to a store than there are ranks: some of an earlier attempt."""

RULES: tuple[Rule, ...] = (
    # GPU and kernel.  Codes and texts as in NVIDIA's Xid catalogue.
    _xid("gpu_off_bus", 100, "79|167"),
    _rule(
        "gpu_off_bus",
        100,
        "fallen off the bus|GPU is lost|Unable to determine the device handle for GPU",
        "fallen off the bus|GPU is lost|Unable to determine the device handle for GPU",
    ),
    _xid("gpu_ecc_uncorrectable", 100, "48|95|140|171|172"),
    _xid("gpu_ecc_uncorrectable", 99, "94", action="restart"),  # contained: only the process died
    _rule(
        "gpu_ecc_uncorrectable",
        95,
        "uncorrectable ECC error|cudaErrorECCUncorrectable",
        "uncorrectable ECC|cudaErrorECCUncorrectable",
    ),
    _xid("gpu_row_remap_failure", 105, "64|157"),
    _xid("gpu_gsp_timeout", 100, "119|120"),
    _rule(
        "gpu_gsp_timeout",
        100,
        "GSP heartbeat|GSP (?:RM )?.*(?:timed out|stopped)",
        "GSP",
    ),
    _rule(  # the history that the driver prints of a call without an answer
        "gpu_gsp_timeout",
        60,
        r"RPC (?:event )?history \(CPU .. GSP\)|GSP_LOCKDOWN_NOTICE",
        "GSP_LOCKDOWN|RPC ",
    ),
    _rule(
        "gpu_off_bus",
        95,
        r"NVIDIA Corporation .*\(rev ff\)",
        "(rev ff)",
    ),
    _xid("nvlink_error", 100, "74|136|137|155"),
    _xid("nvlink_error", 70, "45", ".*caused by previous Xid 14[4-9]"),
    _xid("nvlink_error", 100, "144|145|146|147|148|149|150", "(?=.* Fatal )"),
    _xid("nvlink_error", 90, "154", ".*changed from .* to 0x[1-9a-f]"),
    _xid("gpu_hw_unspecified", 85, "46|54|62|110|143|151|158|160|161|169"),
    _xid(
        "gpu_app_fault", 85, r"8|13|25|31|32|39|40|41|44|66|67|68|69|7[0-256]|8\d|96|97|98|99|10[0-5]|109|126"
    ),
    _xid("benign", 11, "63", action="watch"),  # a row is remapped at the next reset
    _xid("benign", 10, "92|106|107|152|153|156|162|163|43|45|37|38|141"),
    _xid("benign", 11, "144|145|146|147|148|149|150", "(?=.* Nonfatal )", action="watch"),
    _rule(
        "nvswitch_error",
        85,
        r"SXid \(PCI:[^)]*\): \d+, Fatal",
        "SXid (",
    ),
    _rule(
        "benign",
        10,
        r"SXid \(PCI:[^)]*\): \d+, Non-?fatal",
        "SXid (",
    ),
    _rule(
        "cuda_init_failure",
        85,
        "Error 802|all CUDA-capable devices are busy|system not yet initialized"
        "|no CUDA-capable device is detected|No CUDA GPUs are available|CUDA_ERROR_NOT_INITIALIZED"
        "|cudaErrorSystemNotReady",
        "Error 802|system not yet initialized|CUDA-capable device|No CUDA GPUs|CUDA_ERROR_NOT_INITIALIZED"
        "|cudaErrorSystemNotReady",
    ),
    _rule(
        "cuda_oom",
        80,
        "CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|CUDA error: out of memory"
        "|Cuda failure 'out of memory'",
        "out of memory|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED",
    ),
    _rule(
        "cuda_device_assert",
        80,
        r"device-side assert triggered|\.cuh?:\d+: .*Assertion `[^`]*` failed",
        "device-side assert|Assertion `",
    ),
    _rule(
        "gpu_app_fault",
        80,
        "CUDA error: (?:an illegal memory access|misaligned address|an illegal instruction)",
        "CUDA error: ",
    ),
    _rule(
        "gpu_hw_unspecified",
        70,
        "CUDA error: (?:unspecified launch failure|unknown error|hardware stack error)|cudaErrorHardware",
        "CUDA error: |cudaErrorHardware",
    ),
    # Network.
    _rule(
        "ib_retry_exceeded",
        90,
        r"NET/IB\s*: Got completion .*(?:status=12|with error 12)\b",
        "status=12|with error 12",
    ),
    _rule(
        "ib_retry_exceeded",
        90,
        "transport retry counter exceeded",
        "transport retry counter",
    ),
    _rule(
        "ib_protection_error",
        90,
        r"NET/IB\s*: Got completion .*(?:status=|with error )(?:4|9|10)\b",
        "status=|with error ",
    ),
    _rule(
        "ib_protection_error",
        92,
        "local access violation|remote access error",
        "access violation|access error",
    ),
    _rule(
        "nic_link_flap",
        85,
        r"link \w+/\d+ .*state DOWN|(?:mlx5|bnxt|ice|ib)\S* .*[Ll]ink (?:DOWN|down)\b"
        "|NIC Link is Down",
        "DOWN|ink down|Link is Down",
    ),
    _rule(  # what the adapter says before its peers run into time-outs
        "nic_link_flap",
        91,
        "Got async event *: port error",
        "Got async event",
    ),
    _rule(
        "nic_hw_fault",
        92,
        "Got async event *: (?:local catastrophic error|device fatal)",
        "Got async event",
    ),
    _rule(
        "nic_hw_fault",
        85,
        r"insufficient power on the PCIe slot|Port module event\[error\]"
        "|mlx5_core .*(?:health compromised|High Temperature)",
        "insufficient power|Port module event[error]|health compromised|High Temperature",
    ),
    _rule(
        "benign",
        10,
        "process group has NOT been destroyed before",
        "has NOT been destroyed",
    ),
    _rule(
        "benign",
        10,
        r"ACCESS_REG\(0x805\).*failed",
        "ACCESS_REG(0x805)",
    ),
    _rule(
        "nccl_init_failure",
        50,
        "NCCL WARN (?:Connect to|Call to connect).*failed|NCCL WARN (?:Bootstrap|socketStartConnect)"
        "|NCCL WARN socketPollConnect: .*(?:No route to host|refused|unreachable)",
        "NCCL WARN",
    ),
    _rule(
        "nccl_collective_desync",
        80,
        "(?:Detected mismatch between collectives|[Cc]ollective.*(?:desync|mismatch).*rank)",
        "mismatch|desync",
    ),
    _rule(
        "nccl_timeout",
        40,
        "caught collective operation timeout",
        "caught collective operation timeout",
    ),
    _rule(
        "nccl_timeout",
        40,
        r"Timed out waiting \d+ms for (?:recv|send) operation|\[gloo\].*[Tt]imed out",
        "Timed out waiting|[gloo]",
    ),
    _rule(
        "hang",
        45,
        r"watchdog got stuck for|Heartbeat monitor timed out|is stopped \(state T\)"
        r"|no step for [\d.]+ s after step",
        "watchdog got stuck|Heartbeat monitor timed out|is stopped (state T)|no step for",
    ),
    _rule(
        "peer_lost",
        20,
        "Connection (?:closed|reset) by (?:remote )?peer|ncclRemoteError"
        "|remote process exited or there was a network|NCCL communicator was aborted"
        "|recvValue failed|recvBytes from socket failed|Broken pipe|gloo.*(?:Socket closed"
        "|Application timeout)|DistBackendError.*(?:aborted|remote)",
        " by peer|by remote peer|ncclRemoteError|remote process exited|communicator was aborted"
        "|recvValue failed|recvBytes from|Broken pipe|gloo|DistBackendError",
    ),
    _rule(
        "rendezvous_stale_store",
        45,
        rf"store based barrier.*(?:world_size=(\d+), worker_count=(?!\1\b)\d{{2,}}|{_MORE_WORKERS})",
        "worker_count=",
    ),
    _rule(
        "rendezvous_stale_store",
        46,
        "File already exists: .*dist_init",
        "File already exists",
    ),
    _rule(
        "rendezvous_host_lost",
        30,
        "connection to the C10d store has failed|RendezvousConnectionError"
        "|TCPStore server has shut down too early",
        "C10d store|RendezvousConnectionError|has shut down too early",
    ),
    _rule(
        "rendezvous_timeout",
        30,
        "RendezvousTimeoutError|client socket has timed out|store based barrier on rank"
        r"|DistStoreError.*[Tt]imed out|wait timeout after \d+ms"
        "|Timed out initializing process group|failed to connect to .*(?:timed out"
        "|remote address)|clients joined",
        "RendezvousTimeoutError|client socket has timed out|store based barrier|DistStoreError"
        "|wait timeout after|Timed out initializing|failed to connect to|clients joined",
    ),
    # Host.
    _rule(
        "host_oom",
        100,
        "invoked oom-killer|[Oo]ut of memory: Killed process|oom[-_]kill event|oom_kill rose"
        "|OOM Killed|oom_reaper: reaped",
        "oom-killer|ut of memory: Killed|oom-kill event|oom_kill event|oom_kill rose|OOM Killed|oom_reaper",
    ),
    _rule(
        "host_oom",
        85,
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|std::bad_alloc"
        r"|^(?:\[rank\d+\]: )?MemoryError\b|Errno 12\] Cannot allocate memory",
        "DefaultCPUAllocator|bad_alloc|MemoryError|Cannot allocate memory",
    ),
    _rule(
        "shm_exhausted",
        90,
        "Unexpected bus error encountered in worker|insufficient shared memory"
        "|out of shared memory|No space left on device.*/dev/shm|unable to (?:open|resize|mmap"
        "|allocate) shared memory",
        "bus error|shared memory|/dev/shm",
    ),
    _rule(
        "shm_exhausted",
        95,
        "NCCL WARN Error(?:: failed to extend| while creating shared memory segment) /dev/shm/",
        "/dev/shm/",  # noqa: S108 (what NCCL prints)
    ),
    _rule(
        "node_lost",
        86,
        "marked dead because the detector has missed too many heartbeats"
        "|mistakenly been marked as dead by the GCS",
        "marked dead|marked as dead",
    ),
    _rule(
        "dataloader_worker_killed",
        82,
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed by signal: (?!Bus)"
        "|exited unexpectedly)",
        "DataLoader worker",
    ),
    _rule(
        "segfault",
        50,
        r"Segmentation fault|SIGSEGV|exitcode: -11\b|Fatal Python error: (?:Segmentation|Aborted"
        "|Bus error)",
        "Segmentation fault|SIGSEGV|exitcode: -11|Fatal Python error",
    ),
    _rule(
        "process_killed",
        50,
        r"exitcode: -9\b|Signal 9 \(SIGKILL\)|killed by SIGKILL|^\S+: line \d+: +\d+ Killed"
        "|the supervisor of this node was killed",
        "exitcode: -9|SIGKILL| Killed|supervisor of this node was killed",
    ),
    _rule(
        "node_lost",
        100,
        r"DUE TO NODE FAILURE|NODE_FAIL\b|heartbeats of node \S+ stopped",
        "NODE FAILURE|NODE_FAIL|heartbeats of node",
    ),
    # Numbers.
    _rule(
        "loss_scale_exhausted",
        90,
        "loss scale already at minimum|[Mm]inimum loss scale reached",
        "loss scale already at minimum|inimum loss scale reached",
    ),
    _rule(
        "loss_nan",
        85,
        r"(?:grad[ _]norm|(?<!nan )\bloss)[^\w\s:=]?\s*[:=]\s*(?:tensor\()?[-+]?(?:nan|inf)\b"
        r"|[Ll]oss is (?:nan|NaN|inf|not finite)|\bloss (?:nan|NaN)\b"
        "|found NaN in local (?:forward )?(?:grad norm|loss)",
        ": nan|= nan|  nan|:nan|=nan|(nan|-nan|+nan|: inf|= inf|  inf|:inf|=inf|(inf|-inf|+inf"
        "|oss is nan|oss is NaN|oss is inf|oss is not finite|loss nan|loss NaN|found NaN",
    ),
    _rule(
        "benign",
        10,
        r"OVERFLOW! (?:Rank \d+ )?Skipping step|Gradient overflow\.",
        "OVERFLOW!|Gradient overflow",
    ),
    # Storage.
    _rule(
        "disk_full",
        90,
        r"No space left on device|[Dd]isk quota exceeded|ENOSPC|os error 28\b"
        r"|inline_container\.cc.*unexpected pos \d+ vs \d+|basic_ios::clear: iostream error",
        "No space left|isk quota exceeded|ENOSPC|os error 28|unexpected pos|iostream error",
    ),
    _rule(
        "checkpoint_corrupt",
        85,
        "PytorchStreamReader failed|failed finding central directory"
        "|checkpoint (?:file )?(?:is )?(?:corrupt|damaged|incomplete)|SafetensorError"
        "|EOFError: Ran out of input|UnpicklingError|[Cc]hecksum .*(?:mismatch|does not match).*"
        r"|corrupted? checkpoint|unexpected EOF, expected \d+ more bytes",
        "PytorchStreamReader|central directory|checkpoint|SafetensorError|Ran out of input"
        "|UnpicklingError|hecksum|unexpected EOF",
    ),
    _rule(
        "checkpoint_mismatch",
        85,
        r"size mismatch for \S+: copying a param|(?:Missing|Unexpected) key\(s\) in state_dict"
        "|checkpoint .*(?:different|another) (?:world size|dp world size|number of)"
        "|checkpoint being loaded used a DP world size of"
        r"|Error\(s\) in loading state_dict|ZeRO checkpoint.*world size",
        "size mismatch for|in state_dict|world size|loading state_dict|checkpoint",
    ),
    _rule(
        "storage_unavailable",
        85,
        "Lustre: .*(?:was lost|not responding)|nfs: server .* not responding|Stale file handle"
        "|Transport endpoint is not connected|beegfs.*(?:unreachable|[Tt]imed out)"
        r"|^the shared folder .* is not there|task \S+:\d+ blocked for more than \d+ seconds",
        "blocked for more than|Lustre:|nfs: server|Stale file handle|Transport endpoint|beegfs"
        "|the shared folder",
    ),
    _rule(
        "storage_io_error",
        85,
        "(?:Buffer )?I/O error(?: on|,) dev|blk_update_request: .*error|EXT4-fs error"
        r"|XFS .*(?:metadata )?I/O error|Errno 5\] Input/output error|nvme\d.*(?:timeout"
        "|reset controller)",
        "I/O error|blk_update_request|EXT4-fs error|Input/output error|nvme",
    ),
    _rule(
        "permission_denied",
        80,
        r"PermissionError:|\[Errno 13\]|Permission denied",
        "PermissionError|Errno 13|Permission denied",
    ),
    # Scheduler.
    _rule(
        "preempted",
        100,
        r"DUE TO PREEMPTION|\bPREEMPTED\b|preempted by|termination is imminent"
        "|[Ss]pot [Ii]nstance [Ii]nterruption|lame workers found",
        "PREEMPT|preempted by|is imminent|nterruption|lame workers",
    ),
    _rule(
        "time_limit",
        100,
        "DUE TO TIME LIMIT|wall-?clock limit (?:was )?reached",
        "TIME LIMIT|clock limit",
    ),
    # Programs.
    _rule(
        "port_in_use",
        85,
        "EADDRINUSE|[Aa]ddress already in use",
        "EADDRINUSE|ddress already in use",
    ),
    _rule(
        "env_mismatch",
        82,
        "ModuleNotFoundError:|ImportError:|Torch not compiled with CUDA|undefined symbol:"
        r"|version `GLIBC\S*' not found|no kernel image is available"
        "|driver version is insufficient|NVIDIA driver on your system is too old"
        "|[Ee]rror.*cannot open shared object file|command not found"
        "|^cannot start |No module named|can't open file '.*No such file",
        "ModuleNotFoundError|ImportError|Torch not compiled|undefined symbol|GLIBC|no kernel image"
        "|driver version|is too old|shared object file|command not found|cannot start |No module named"
        "|can't open file",
    ),
    _rule(  # a program that cannot be parsed has no traceback
        "user_code_error",
        60,
        "^(?:Syntax|Indentation|Tab)Error: ",
        "SyntaxError|IndentationError|TabError",
    ),
    _rule(
        "data_error",
        80,
        "UnidentifiedImageError|cannot identify image file|UnicodeDecodeError:|JSONDecodeError:"
        r"|ArrowInvalid|BadZipFile|zlib\.error|truncated (?:image|record)",
        "UnidentifiedImageError|cannot identify image|UnicodeDecodeError|JSONDecodeError|ArrowInvalid"
        "|BadZipFile|zlib.error|truncated ",
    ),
)

EXCEPTION = re.compile(
    r"^(?:\[rank(?P<rank>\d+)\]: ?)?(?P<name>(?:[A-Za-z_]\w*\.)*"
    r"[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Stop\w*)?)(?::|$)"
)
"""The last line of a traceback: the exception's class, perhaps with its module, and its text."""

NOT_THE_USERS = re.compile(
    r"^(?:KeyboardInterrupt|SystemExit|SignalException|ChildFailedError|.*ElasticError)$"
)
"""Exceptions that say that somebody else ended the process."""

REFUSAL = re.compile(r'^(?:\S+: )?[Ee]rror: \S|^\{"type": "urn:ogai:problem:')
"""How a program that ends with exit code 2 (argparse, click, our own) says that its input is wrong."""
