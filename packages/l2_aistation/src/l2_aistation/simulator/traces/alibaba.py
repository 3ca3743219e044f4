"""Alibaba GPU cluster 2023 (FGD, ATC 2023; Apache-2.0): pods with fractions of accelerators.

`variant, name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, …, creation_time, deletion_time,
scheduled_time`.  A pod runs from its schedule (or creation) to its deletion; one that never ran is
left out.
"""

from __future__ import annotations

from l2_aistation.simulator.jobs import TraceJob

from .rows import Row

NAME = "alibaba"
DELIMITER = ","
COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time")
DEFAULT = "default"


def job(row: Row) -> TraceJob | None:
    """A row's job; None for a pod that never ran."""
    created = row.number("creation_time")
    began = row.number("scheduled_time", created)
    duration = row.number("deletion_time", began) - began
    if duration <= 0:
        return None
    share = row.whole("gpu_milli", most=1000)
    accelerators = row.whole("num_gpu", most=1024)
    return TraceJob(
        row.text("name"),
        created,
        duration,
        accelerators,
        tasks=1,
        queue=row.text("qos", "default"),
        cpu_milli=row.whole("cpu_milli"),
        memory_bytes=row.whole("memory_mib") << 20,
        share_milli=share if accelerators == 1 and 0 < share < 1000 else 0,
        models=tuple(filter(None, row.text("gpu_spec", "").split("|"))),
    )
