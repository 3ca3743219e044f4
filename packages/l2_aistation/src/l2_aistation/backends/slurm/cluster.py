"""The pool as Slurm knows it: nodes, accelerators and switches, so that no report is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from l2_aistation._kit.problems import Unavailable
from l2_aistation.core.pool import AcceleratorFacts, ClusterFacts, NodeFacts

from .manager import ask, call

_GRES = re.compile(r"gpu(?::(?P<model>[A-Za-z][^:(,]*))?:(?P<count>\d+)")
_SWITCH = re.compile(r"SwitchName=(?P<name>\S+) Level=(?P<level>\d+).*? Nodes=(?P<nodes>\S+)")
_MIB = 1 << 20


class SlurmCluster:
    """A `ClusterSource` over `sinfo --json` and `scontrol show topology`."""

    def cluster(self) -> ClusterFacts:
        """The facts, read anew; `Unavailable` where slurmctld does not answer or has no nodes."""
        rows = ask("sinfo").get("nodes", [])
        if not rows:
            raise Unavailable("Slurm has no nodes", do="look at `sinfo`")
        name = next(iter(re.findall(r"ClusterName\s*=\s*(\S+)", call("scontrol", "show", "config"))), "slurm")
        switches = places(call("scontrol", "show", "topology"), _expanded)
        return ClusterFacts(name, tuple(facts(row, switches) for row in rows))


def _expanded(hosts: str) -> list[str]:
    return call("scontrol", "show", "hostnames", hosts).split()


def places(text: str, expanded: Callable[[str], Iterable[str]]) -> dict[str, tuple[str, str]]:
    """Each node's leaf and spine: the switches of levels 0 and 1 that reach it."""
    levels: dict[int, dict[str, str]] = {0: {}, 1: {}}
    for match in _SWITCH.finditer(text):
        level = int(match["level"])
        if level in levels:
            levels[level] |= dict.fromkeys(expanded(match["nodes"]), match["name"])
    return {node: (leaf, levels[1].get(node, "spine")) for node, leaf in levels[0].items()}


def facts(row: Mapping[str, Any], switches: Mapping[str, tuple[str, str]]) -> NodeFacts:
    """A node of `sinfo --json`; Slurm does not say its accelerators' memory."""
    leaf, spine = switches.get(row["name"], ("leaf", "spine"))
    devices = [
        match["model"] or "gpu"
        for match in _GRES.finditer(row.get("gres") or "")
        for _ in range(int(match["count"]))
    ]
    return NodeFacts(
        id=row["name"],
        cpu_cores=int(row["cpus"]),
        memory_bytes=int(row["real_memory"]) * _MIB,
        accelerators=tuple(AcceleratorFacts(number, "", model) for number, model in enumerate(devices)),
        leaf=leaf,
        spine=spine,
        address=row.get("address") or row["name"],
        engine="slurm",
    )
