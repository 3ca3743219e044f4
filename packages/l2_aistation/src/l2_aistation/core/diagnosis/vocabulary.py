"""The labels that a diagnosis may give: what each means, and what it asks for."""

from __future__ import annotations

from typing import NamedTuple


class Label(NamedTuple):
    """`action` is restart, replace, reset, stop, fix, watch, ignore or rollback."""

    category: str
    action: str
    meaning: str


LABELS: dict[str, Label] = {
    "gpu_off_bus": Label("gpu", "replace", "the device no longer answers"),
    "gpu_ecc_uncorrectable": Label("gpu", "replace", "uncorrectable memory error"),
    "gpu_row_remap_failure": Label("gpu", "replace", "a bad memory row could not be replaced"),
    "gpu_gsp_timeout": Label("gpu", "reset", "the GPU's system processor stopped answering"),
    "gpu_app_fault": Label(
        "software", "fix", "the program made the GPU fault, without signs of bad hardware"
    ),
    "gpu_hw_unspecified": Label("gpu", "replace", "the GPU failed without a specific code"),
    "gpu_bad_node_masked_as_oom": Label("gpu", "replace", "a failed GPU that shows as out of memory"),
    "nvlink_error": Label("gpu", "reset", "fatal NVLink fault"),
    "nvswitch_error": Label("gpu", "replace", "fatal NVSwitch fault"),
    "cuda_init_failure": Label("gpu", "replace", "CUDA or the fabric manager is not ready"),
    "cuda_oom": Label("software", "fix", "the program needs more GPU memory than there is"),
    "cuda_device_assert": Label(
        "software", "fix", "an assertion on the GPU failed, as an index out of range"
    ),
    "nccl_timeout": Label(
        "network", "restart", "a collective did not complete and no earlier cause is visible"
    ),
    "nccl_collective_desync": Label("software", "fix", "ranks issued different collectives"),
    "nccl_init_failure": Label("network", "replace", "a communicator could not be set up"),
    "hang": Label("software", "restart", "a process is stuck"),
    "peer_lost": Label("network", "restart", "a process only reports that a peer went away"),
    "ib_retry_exceeded": Label("network", "replace", "a peer is unreachable over InfiniBand or RoCE"),
    "ib_protection_error": Label("network", "fix", "the fabric refused an access: configuration or driver"),
    "nic_link_flap": Label("network", "replace", "a link goes down and up"),
    "nic_hw_fault": Label("network", "replace", "an adapter's power, temperature or module is bad"),
    "rendezvous_timeout": Label("network", "restart", "peers or the store were not reached in time"),
    "rendezvous_stale_store": Label("software", "restart", "ranks read what an earlier attempt left"),
    "rendezvous_host_lost": Label("software", "restart", "the process that hosts the store is gone"),
    "node_lost": Label("host", "replace", "a node's heartbeats stopped"),
    "process_killed": Label("host", "restart", "a process ended by SIGKILL and nothing confirms why"),
    "dataloader_worker_killed": Label("host", "restart", "a data worker ended without a traceback"),
    "host_oom": Label("host", "fix", "the host's or the job's memory ran out"),
    "shm_exhausted": Label("software", "fix", "shared memory is too small"),
    "segfault": Label("software", "restart", "native crash"),
    "loss_nan": Label("numerics", "rollback", "loss or gradient norm is not finite"),
    "loss_spike": Label("numerics", "rollback", "the loss jumped far above its recent band"),
    "loss_scale_exhausted": Label("numerics", "rollback", "the fp16 loss scale is at its minimum"),
    "straggler": Label("gpu", "watch", "steps became slower and stay slower, with no error"),
    "checkpoint_corrupt": Label(
        "storage", "restart", "a checkpoint is incomplete: the one before it is good"
    ),
    "checkpoint_mismatch": Label("software", "fix", "a checkpoint does not fit the model or the world size"),
    "disk_full": Label("storage", "fix", "no space or quota left"),
    "storage_unavailable": Label("storage", "restart", "the shared file system does not answer"),
    "storage_io_error": Label("storage", "replace", "a local disk has errors"),
    "permission_denied": Label("storage", "fix", "no right to read or write a path"),
    "data_error": Label("data", "fix", "a sample cannot be read or decoded"),
    "user_code_error": Label("software", "fix", "an exception in the user's code, or input that it refuses"),
    "env_mismatch": Label("software", "fix", "wrong build, missing package or program"),
    "port_in_use": Label("software", "restart", "the rendezvous port is taken"),
    "preempted": Label("scheduler", "restart", "the scheduler took the resources"),
    "time_limit": Label("scheduler", "restart", "the wall-clock limit was reached"),
    "benign": Label("none", "ignore", "looks alarming and needs no action on the job"),
    "unknown": Label("unknown", "restart", "nothing in the evidence names a cause"),
}
