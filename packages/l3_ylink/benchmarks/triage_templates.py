"""Sentences of the fault-triage task: what a log line or an operator says, by the action that follows.

Ours, under Apache-2.0.  `TRAIN` and `HELD_OUT` say different sentences about the same kinds of fault; slots
in braces are filled by the caller.
"""
# ruff: noqa: E501 (the texts are data)

from __future__ import annotations

ACTIONS = ("restart", "replace", "reset", "fix", "watch")

TRAIN: dict[str, dict[str, list[str]]] = {
    "restart": {
        "en": [
            "NCCL watchdog: collective {op} timed out after {n} s on rank {rank}, all nodes healthy",
            "rank {rank} lost its peer on {host}, connection closed by remote side during {op}",
            "job {job} was preempted by the scheduler and stopped at step {n}",
            "data loader worker {rank} was killed by a signal, hardware checks pass",
            "agent on {host} missed {rank} heartbeats during a switch reboot and is back now",
            "worker process {rank} exited with signal 9 after a node drain, nothing else is wrong",
            "training stalled: {op} hung on rank {rank}, every GPU answers",
            "gloo: connection reset by peer at {host}, the peer is alive again",
        ],
        "zh": [
            "NCCL 集合通信 {op} 在 rank {rank} 超时 {n} 秒，各节点硬件正常",
            "rank {rank} 与 {host} 的连接被对端关闭，网络已恢复",
            "作业 {job} 被调度器抢占，停在第 {n} 步",
            "数据加载进程 {rank} 被信号终止，硬件检查通过",
            "{host} 的代理丢失 {rank} 次心跳，交换机重启后已恢复",
        ],
    },
    "replace": {
        "en": [
            "NVRM: Xid 79 on {host}: GPU {gpu} has fallen off the bus",
            "GPU {gpu} on {host}: row remapping failure, uncorrectable ECC errors keep coming",
            "disk {disk} on {host} reports {n} reallocated sectors, SMART status FAILED",
            "power supply {gpu} of {host} is dead, redundancy lost",
            "memory module {gpu} on {host}: uncorrectable error at the same address for the third time",
            "InfiniBand port {gpu} of {host} goes down {rank} times an hour, cable already changed",
            "fan {gpu} of {host} stopped and does not spin up, temperature {n} C",
            "GPU {gpu} not detected on {host} after a cold boot, the slot was swapped",
        ],
        "zh": [
            "{host} 的 GPU {gpu} 掉卡，Xid 79，已从总线脱落",
            "{host} 的 GPU {gpu} 行重映射失败，不可纠正 ECC 错误持续出现",
            "{host} 的磁盘 {disk} 重映射扇区 {n} 个，SMART 状态失败",
            "{host} 的电源 {gpu} 损坏，冗余丢失",
            "{host} 的内存条 {gpu} 在同一地址第三次出现不可纠正错误",
        ],
    },
    "reset": {
        "en": [
            "NVRM: Xid 119 on {host}: GSP timeout on GPU {gpu}, the card still answers on the bus",
            "GPU {gpu} on {host} is in a bad state after a contained ECC error, pending a GPU reset",
            "NVLink error on GPU {gpu} of {host}: link inactive, recovery action is a GPU reset",
            "GPU {gpu} reports row remap pending on {host}, takes effect after the next reset",
            "CUDA initialisation fails on GPU {gpu} of {host} only, error 802, fabric manager asks for a reset",
            "GPU {gpu} on {host} hangs at {n} % utilisation without a process, the driver advises to reset it",
            "Xid 95 on GPU {gpu} of {host}: uncontained error, drain and reset the GPU",
            "NVSwitch {gpu} on {host} reports a fatal SXid, reset of GPUs and switches required",
        ],
        "zh": [
            "{host} 的 GPU {gpu} GSP 超时，Xid 119，设备仍在总线上",
            "{host} 的 GPU {gpu} 发生受控 ECC 错误，等待 GPU 重置",
            "{host} 的 GPU {gpu} NVLink 链路失效，恢复动作是重置 GPU",
            "{host} 的 GPU {gpu} 行重映射待生效，重置后完成",
            "{host} 的 GPU {gpu} 无进程却占用 {n}%，驱动建议重置",
        ],
    },
    "fix": {
        "en": [
            "RuntimeError: shapes cannot be multiplied ({n}x{rank} and {gpu}x{n}) in train.py",
            "ModuleNotFoundError: No module named '{module}' on rank {rank}",
            "torch.OutOfMemoryError: tried to allocate {n} MiB, batch size is too large for the card",
            "KeyError: '{module}' while reading config.yaml of job {job}",
            "FileNotFoundError: data/{module}.bin given on the command line of job {job}",
            "CUDA error: device-side assert triggered, label {n} is out of range",
            "ValueError: checkpoint has {n} layers but the model is built with {rank}",
            "SyntaxError: invalid syntax in {module}.py line {n}",
        ],
        "zh": [
            "train.py 报错：矩阵形状 {n}x{rank} 与 {gpu}x{n} 不能相乘",
            "rank {rank} 报错：找不到模块 {module}",
            "显存不足：申请 {n} MiB 失败，批大小设置过大",
            "作业 {job} 的配置文件缺少字段 {module}",
            "标签 {n} 越界，触发设备端断言，数据与代码不一致",
        ],
    },
    "watch": {
        "en": [
            "GPU {gpu} on {host}: {rank} corrected ECC errors in a day, below the limit",
            "loss scale overflow at step {rank}, skipping this step and lowering the scale",
            "GPU {gpu} on {host} at {n} C, slightly above its neighbours, no throttling",
            "port {gpu} of {host} counted {rank} symbol errors this week, link stays up",
            "step time of rank {rank} rose by {gpu} percent for a minute and went back",
            "warning: access register query failed on {host}, harmless message of the driver",
            "row remapped once on GPU {gpu} of {host}, spare rows remain, no action needed",
            "checkpoint took {n} s instead of the usual time, storage was busy",
        ],
        "zh": [
            "{host} 的 GPU {gpu} 一天内出现 {rank} 次可纠正 ECC 错误，低于阈值",
            "第 {rank} 步损失缩放溢出，跳过该步并降低缩放系数",
            "{host} 的 GPU {gpu} 温度 {n} 度，略高于其他卡，未降频",
            "{host} 端口 {gpu} 本周 {rank} 个符号错误，链路保持正常",
            "检查点保存用了 {n} 秒，比平时慢，存储繁忙",
        ],
    },
}

HELD_OUT: dict[str, dict[str, list[str]]] = {
    "restart": {
        "en": [
            "all cards are fine, yet {op} on rank {rank} timed out in the NCCL watchdog",
            "peer {host} closed its connection in the middle of {op}; it answers again",
            "stopped at step {n}: preempted, scheduler gave the nodes of {job} away",
            "signal 9 ended worker {rank} while {host} was drained, hardware passes",
        ],
        "zh": ["硬件都正常，rank {rank} 的 {op} 集合通信超时", "作业 {job} 停在第 {n} 步，原因是被抢占"],
    },
    "replace": {
        "en": [
            "GPU {gpu} fell off the bus again on {host} (Xid 79)",
            "SMART FAILED: sectors of {disk} in {host} keep being reallocated",
            "uncorrectable ECC errors and a row remapping failure, GPU {gpu}, {host}",
            "{host} lost redundancy because power supply {gpu} died",
        ],
        "zh": ["GPU {gpu} 从总线脱落，{host} 又一次掉卡", "SMART 失败，{host} 上 {disk} 的坏扇区还在增加"],
    },
    "reset": {
        "en": [
            "GSP of GPU {gpu} timed out (Xid 119), card on {host} still visible on the bus",
            "row remap is pending for GPU {gpu}; {host} has to reset it",
            "link inactive: NVLink of GPU {gpu}, recovery by GPU reset, node {host}",
            "contained ECC error left GPU {gpu} of {host} waiting for its reset",
        ],
        "zh": ["Xid 119，GPU {gpu} 的 GSP 超时，{host} 上设备还在", "NVLink 失效，{host} 需要重置 GPU {gpu}"],
    },
    "fix": {
        "en": [
            "rank {rank}: no module named {module}, import failed in the user's script",
            "allocation of {n} MiB failed with OutOfMemoryError, the batch size was raised too far",
            "config.yaml misses key {module}, job {job} raises KeyError",
            "label {n} out of range made a device-side assert trigger in CUDA",
        ],
        "zh": ["模块 {module} 找不到，rank {rank} 导入失败", "批大小过大，{n} MiB 显存申请不到"],
    },
    "watch": {
        "en": [
            "below the limit: {rank} corrected ECC errors today, GPU {gpu}, {host}",
            "overflow of the loss scale at step {rank}, this step skipped",
            "slightly warm, {n} C, no throttling: GPU {gpu} in {host}",
            "link stays up, {rank} symbol errors on port {gpu} of {host}",
        ],
        "zh": ["可纠正 ECC 错误今天 {rank} 次，GPU {gpu}，没到阈值", "存储繁忙，检查点这次用了 {n} 秒"],
    },
}

SLOTS: dict[str, list[str]] = {
    "host": [f"node{number:02d}" for number in range(1, 40)]
    + [f"gpu-{letter}{number}" for letter in "abc" for number in range(1, 9)],
    "gpu": [str(number) for number in range(8)],
    "rank": [str(number) for number in range(2, 64)],
    "n": [str(number) for number in (31, 42, 64, 77, 86, 91, 96, 120, 256, 300, 512, 600, 1800, 2048, 4096)],
    "op": ["allreduce", "broadcast", "reduce_scatter", "allgather", "barrier"],
    "job": [f"pretrain-{number}" for number in range(11, 40)] + [f"sft-{number}" for number in range(11, 40)],
    "disk": ["sda", "sdb", "nvme0n1", "nvme1n1", "nvme2n1"],
    "module": ["tokens", "adapter", "vocab", "dataset", "fused_ops", "schedule", "model_args"],
}
FRAMES = {
    "en": [
        "{line}",
        "{line}",
        "[{host}] {line}",
        "kernel: {line}",
        "Operator note: {line}",
        "{line} (seen twice)",
    ],
    "zh": ["{line}", "{line}", "[{host}] {line}", "告警：{line}", "运维记录：{line}", "{line}（出现两次）"],
}
PROMPTS = {
    "en": "Log: {log}\nWhich action fits: restart, replace, reset, fix or watch?",
    "zh": "日志：{log}\n应采取哪种动作：restart、replace、reset、fix 还是 watch？",
}
