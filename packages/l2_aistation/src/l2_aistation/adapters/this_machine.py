"""The pool of a machine with nothing configured: itself, engine `local`."""

from __future__ import annotations

import os
import shutil
import subprocess

from l2_aistation.core.pool import AcceleratorFacts, ClusterFacts, NodeFacts

NODE = "local"


class ThisMachine:
    """A `ClusterSource` of one node: this machine's cores, memory and accelerators."""

    def cluster(self) -> ClusterFacts:
        """The facts, read anew."""
        node = NodeFacts(
            id=NODE,
            cpu_cores=len(os.sched_getaffinity(0)),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            accelerators=tuple(_nvidia()),
            engine="local",
        )
        return ClusterFacts(name="this machine", nodes=(node,))


def _nvidia() -> list[AcceleratorFacts]:
    """NVIDIA accelerators as `nvidia-smi` lists them; none where it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_nvidia(text)


def parse_nvidia(text: str) -> list[AcceleratorFacts]:
    """The rows of `nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader,nounits`."""
    rows = [line.split(", ") for line in text.splitlines() if line.count(", ") == 2]
    return [
        AcceleratorFacts(int(index), "nvidia", name, int(float(mebibytes)) << 20)
        for index, name, mebibytes in rows
        if index.isdigit() and mebibytes.replace(".", "", 1).isdigit()
    ]
