"""What to do with a held job, and which nodes are really gone.  Pure; times are passed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .healing import Cause, Decision, PastAttempt, Place, Situation

USERS: Final = frozenset({
    "user_code_error", "cuda_oom", "cuda_device_assert", "gpu_app_fault", "nccl_collective_desync",
    "env_mismatch", "checkpoint_mismatch", "permission_denied", "shm_exhausted", "host_oom",
    "data_error", "disk_full", "ib_protection_error", "loss_nan", "loss_spike", "loss_scale_exhausted",
})  # fmt: skip
"""A retry of the same job on the same data ends the same way: stop and say what to fix."""

BAD_NODE: Final = frozenset({
    "node_lost", "gpu_off_bus", "gpu_ecc_uncorrectable", "gpu_row_remap_failure", "gpu_gsp_timeout",
    "nvlink_error", "gpu_hw_unspecified", "gpu_bad_node_masked_as_oom", "nvswitch_error",
    "cuda_init_failure", "nccl_init_failure", "ib_retry_exceeded", "nic_link_flap", "nic_hw_fault",
    "storage_io_error",
})  # fmt: skip
"""The node must not carry these ranks again before somebody has looked at it."""

HARDWARE: Final = BAD_NODE - {"node_lost", "nccl_init_failure", "cuda_init_failure"}
"""Faults that a node does not lose by itself: it is cordoned."""

SPOILT: Final = frozenset({"loss_nan", "loss_spike", "loss_scale_exhausted"})
"""The loss itself is bad: the same data from the same checkpoint would spoil it again."""

_TOLD_LATE_STEPS = 3
"""A spoilt loss is told after so many steps."""

GIVE_BACK: Final = frozenset({"preempted", "time_limit"})

_SAME_PLACE_TRIES: Final = {"unknown": 1, "segfault": 1, "checkpoint_corrupt": 2, "process_killed": 3}
_OTHER_TRIES: Final = 3
"""How often a fault without progress is met with a restart in the same place."""

_ASK_AGAIN_S = 1.0
_LONGEST_DELAY_S = 30.0
_MASKS_A_GPU = frozenset({"cuda_oom", "cuda_init_failure", "host_oom"})
_HIDDEN_BEHIND: Final = frozenset(label for label in BAD_NODE if label.startswith(("gpu_", "nv")))


def decide(situation: Situation) -> Decision:
    """The next move for a held job: resume (perhaps elsewhere), wait, requeue or fail."""
    cause = _unmasked(situation)
    limit = _limit(situation, cause)
    if limit is not None:
        return limit
    if cause.label in GIVE_BACK:
        return Decision("requeue", f"{cause.label}: the job goes back to the queue")
    blamed = _blamed(situation, cause)
    bad = set(situation.unusable) | ({blamed} if blamed is not None else set())
    cordon = (blamed,) if blamed is not None and cause.label in HARDWARE else ()
    if situation.rollback and cause.label in SPOILT:
        step, skip = rollback_of(situation)
        why = f"{cause.label}: back to step {step}, the data of {skip} steps are passed over"
        return Decision("resume", why, rollback=(step, skip))
    if not bad & {place.node for place in situation.places}:
        delay = _delay_s(situation)
        return Decision("resume", f"{cause.label}: again on the same nodes", delay_s=delay, cordon=cordon)
    replaced = stand_ins(situation.places, bad, situation.candidates)
    if replaced is not None:
        names = ", ".join(f"{lost} by {spare}" for lost, spare in replaced.items())
        return Decision("resume", f"{cause.label}: {names} replaced, ranks kept", replaced, cordon=cordon)
    return _without_stand_in(situation, cause, bad, cordon)


def _without_stand_in(situation: Situation, cause: Cause, bad: set[str], cordon: tuple[str, ...]) -> Decision:
    """An elastic gang goes on smaller; any other waits a while, then goes back to the queue."""
    size = remaining_size(situation, bad)
    if size is not None:
        gone = ", ".join(sorted(bad))
        why = f"{cause.label}: no stand-in for {gone}, goes on with {size} of {sum(situation.tasks)} tasks"
        return Decision("shrink", why, cordon=cordon, without=tuple(sorted(bad)), size=size)
    if situation.now - situation.held_since < situation.hold_limit_s:
        missing = ", ".join(sorted(bad))
        return Decision(
            "wait", f"no free node can stand in for {missing}", delay_s=_ASK_AGAIN_S, cordon=cordon
        )
    return Decision(
        "requeue", f"no stand-in came in {situation.hold_limit_s:.0f} s; back to the queue", cordon=cordon
    )


def rollback_of(situation: Situation) -> tuple[int, int]:
    """Before the loss was spoilt, and one checkpoint further each time; and how many steps' data to skip."""
    before = sum(past.label in SPOILT for past in situation.history)
    last = situation.last_step or 0
    step = max(0, last - _TOLD_LATE_STEPS - before * situation.every_steps)
    return step, max(1, last - step)


def remaining_size(situation: Situation, bad: set[str]) -> int | None:
    """The largest size, in whole units, that an elastic gang can go on with on the nodes that are left."""
    if situation.least is None:
        return None
    sound = (
        count for place, count in zip(situation.places, situation.tasks, strict=True) if place.node not in bad
    )
    size = sum(sound) // situation.unit * situation.unit
    return size if size >= situation.least else None


def _unmasked(situation: Situation) -> Cause:
    """A GPU that failed here before may now show as out of memory: the node is meant, not the user."""
    cause = situation.cause
    failed_before = any(
        past.node == cause.node and past.label in _HIDDEN_BEHIND for past in situation.history
    )
    if cause.label in _MASKS_A_GPU and cause.node is not None and failed_before:
        return Cause(
            "gpu_bad_node_masked_as_oom", "gpu", "replace", cause.node, cause.rank, cause.evidence, 0.7
        )
    return cause


def _limit(situation: Situation, cause: Cause) -> Decision | None:
    """Why there may be no next attempt at all."""
    tries = len(situation.history)
    goes_back = situation.rollback and cause.label in SPOILT
    if cause.label in USERS and not situation.on_user_error and not goes_back:
        return Decision("fail", f"{cause.label}: the same job would fail again; fix it and submit it anew")
    if tries + 1 >= situation.max_attempts:
        return Decision("fail", f"{cause.label}: all {situation.max_attempts} attempts are used up")
    if cause.label not in BAD_NODE | GIVE_BACK:
        idle = without_progress(situation.history, cause.label)
        if idle >= _SAME_PLACE_TRIES.get(cause.label, _OTHER_TRIES):
            return Decision("fail", f"{cause.label}: {idle + 1} times without a step of progress")
    return None


def without_progress(history: tuple[PastAttempt, ...], label: str) -> int:
    """How many of the last attempts ended with this label and reached no new step."""
    best = -1
    idle = 0
    for past in history:
        reached = -1 if past.last_step is None else past.last_step
        idle = (
            idle + 1 if past.label == label and reached <= best else int(past.label == label and reached < 0)
        )
        best = max(best, reached)
    return idle


def _blamed(situation: Situation, cause: Cause) -> str | None:
    """The node to leave: named by the cause, or named again and again whatever the label was."""
    if cause.node is None:
        return None
    if cause.label in BAD_NODE:
        return cause.node
    last_two = situation.history[-2:]
    again = len(last_two) == 2 and all(past.node == cause.node for past in last_two)
    return cause.node if again and cause.label not in USERS else None


def _delay_s(situation: Situation) -> float:
    """Nothing at first; longer where attempts end without a step."""
    idle = 0
    for past in reversed(situation.history):
        if past.last_step is not None:
            break
        idle += 1
    return min(_LONGEST_DELAY_S, 2.0**idle) if idle else 0.0


def stand_ins(
    places: tuple[Place, ...], bad: set[str], candidates: tuple[Place, ...]
) -> dict[str, str] | None:
    """A candidate for each bad node, equal in topology where one is; None where there are too few.

    Preference: same leaf before same spine before elsewhere; at one distance a spare before a free
    node; then the order given.
    """
    free = [place for place in candidates if place.node not in bad]
    replaced: dict[str, str] = {}
    for lost in places:
        if lost.node not in bad or lost.node in replaced:
            continue
        if not free:
            return None
        best = min(free, key=lambda place: (_distance(lost, place), not place.spare))
        free.remove(best)
        replaced[lost.node] = best.node
    return replaced


def _distance(one: Place, other: Place) -> int:
    if one.leaf == other.leaf:
        return 0
    return 1 if one.spine == other.spine else 2


def silent_nodes(last_seen: Mapping[str, float], now: float, limit_s: float, loop_gap_s: float) -> list[str]:
    """The nodes that are lost, and not merely unheard because we or the broker do not listen.

    `loop_gap_s` is how long the caller did not look; a caller that was late cannot judge.  All nodes
    silent at once is the control plane's fault.  More than half at once must stay silent twice as
    long, a lone node three times.
    """
    if loop_gap_s > limit_s / 2 or not last_seen:
        return []
    silent = [node for node, seen in last_seen.items() if now - seen > limit_s]
    if len(last_seen) == 1:
        return [node for node in silent if now - last_seen[node] > 3 * limit_s]
    if len(silent) == len(last_seen):
        return []
    if 2 * len(silent) > len(last_seen):
        return sorted(node for node in silent if now - last_seen[node] > 2 * limit_s)
    return sorted(silent)
