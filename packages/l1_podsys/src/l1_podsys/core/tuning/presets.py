"""Named sets of kernel settings that a profile's `tuning` lists; each with its reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from l1_podsys._kit.problems import BadInput


class Preset(NamedTuple):
    """A set of sysctl values and why they are set."""

    why: str
    settings: dict[str, str]


PRESETS: dict[str, Preset] = {
    "fast-network": Preset(
        "TCP windows of 100 Gbit/s and more at data-centre round trips; a deep backlog for bursts",
        {
            "net.core.rmem_max": "268435456",
            "net.core.wmem_max": "268435456",
            "net.core.netdev_max_backlog": "250000",
            "net.core.somaxconn": "8192",
            "net.ipv4.tcp_rmem": "4096 87380 134217728",
            "net.ipv4.tcp_wmem": "4096 65536 134217728",
            "net.ipv4.tcp_mtu_probing": "1",
        },
    ),
    "rdma-host": Preset(
        "several ports in one subnet: answer ARP on the port that owns the address, accept return paths",
        {
            "net.ipv4.conf.all.arp_ignore": "1",
            "net.ipv4.conf.all.arp_announce": "2",
            "net.ipv4.conf.all.rp_filter": "2",
        },
    ),
    "training-memory": Preset(
        "ranks hold almost all memory: no early swapping, no NUMA page migration under a pinned rank",
        {
            "vm.swappiness": "10",
            "vm.max_map_count": "1048576",
            "vm.zone_reclaim_mode": "0",
            "kernel.numa_balancing": "0",
        },
    ),
    "many-files": Preset(
        "data loaders and agents watch and open many files",
        {
            "fs.file-max": "9000000",
            "fs.inotify.max_user_instances": "8192",
            "fs.inotify.max_user_watches": "1048576",
        },
    ),
}


def preset_settings(names: Iterable[str]) -> dict[str, str]:
    """The settings of these presets together; an unknown name is a `BadInput`."""
    settings: dict[str, str] = {}
    for index, name in enumerate(names):
        if name not in PRESETS:
            raise BadInput(
                f"no preset {name!r}",
                field=f"os.tuning.{index}",
                do=f"use one of: {', '.join(sorted(PRESETS))}",
            )
        settings |= PRESETS[name].settings
    return settings
