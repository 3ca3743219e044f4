"""What a queue is sure to get, against what it holds."""

from __future__ import annotations

from functools import lru_cache

from .amount import WHOLE, Amount
from .demand import Demand
from .queue import Queue


@lru_cache(maxsize=1 << 14)
def need_of(demand: Demand) -> Amount:
    """What a demand would hold at full size; by model only where one model alone will do.

    One amount for all who ask: nobody changes it.
    """
    need = Amount(demand.accelerator_milli, demand.cpu_milli, demand.memory_bytes, jobs=1)
    for group in demand.groups:
        if len(group.wanted) == 1 and group.accelerators:
            milli = group.count * (group.share_milli or group.accelerators * WHOLE)
            need.models[group.wanted[0]] = need.models.get(group.wanted[0], 0) + milli
    return need


def filled(queue: Queue, used: Amount, cells_milli: int = 0) -> float | None:
    """The used share of a guarantee (its fullest resource); None without a guarantee.

    `cells_milli` are the accelerators of its cells, where they are more than those it is guaranteed.
    """
    shares = [
        in_use / sure
        for sure, in_use in (
            (max(queue.guarantee_accelerators * WHOLE, cells_milli), used.accelerator_milli),
            (queue.guarantee_cpu_cores * 1000, used.cpu_milli),
            *((sure * WHOLE, used.models.get(model, 0)) for model, sure in queue.guarantee_models.items()),
        )
        if sure
    ]
    return max(shares) if shares else None


def within(queue: Queue, used: Amount, need: Amount) -> bool:
    """Whether a queue would stay within its guarantee with `need` on top of what it holds.

    A job with accelerators is measured by them, another one by its cores.  A guarantee for a model
    is for jobs that ask for that model.
    """
    if not need.accelerator_milli:
        sure = queue.guarantee_cpu_cores * 1000
        return 0 < used.cpu_milli + need.cpu_milli <= sure
    if used.accelerator_milli + need.accelerator_milli <= queue.guarantee_accelerators * WHOLE:
        return True
    return sum(need.models.values()) == need.accelerator_milli and all(
        used.models.get(model, 0) + milli <= queue.guarantee_models.get(model, 0) * WHOLE
        for model, milli in need.models.items()
    )


def over(queue: Queue, used: Amount, held: Amount) -> bool:
    """Whether a queue holds more than its guarantee of what one of its jobs holds."""
    if not held.accelerator_milli:
        return used.cpu_milli > queue.guarantee_cpu_cores * 1000
    if used.accelerator_milli <= queue.guarantee_accelerators * WHOLE:
        return False
    if not queue.guarantee_models:
        return True
    return not held.models or any(
        used.models.get(model, 0) > queue.guarantee_models.get(model, 0) * WHOLE for model in held.models
    )
