"""From events to states: starts, steps, ends, faults; and a held job back to running.

Each function takes the platform and changes it; the loop writes what they changed in one
transaction and only then sends the commands.
"""

from __future__ import annotations

from l2_aistation.core.attempt import Attempt
from l2_aistation.core.events import (
    CheckpointSaved,
    EndTasks,
    Event,
    NodeSeen,
    Resumed,
    StepReported,
    TaskExited,
    TasksEnded,
    TaskStalled,
    TaskStarted,
)
from l2_aistation.core.healing import LostNode, RankExit, Stall
from l2_aistation.core.states import AttemptEvent, AttemptState, JobEvent, JobState
from l2_aistation.core.world import Job

from . import conditions
from .jobs import stop
from .launch import attend_commands, end_commands, start_commands
from .platform import Platform
from .warming import cool, warm

FATAL_STALLS = frozenset({"hang", "nan", "disk", "memory"})
SEND_AGAIN_S = 10.0
"""How long a start may be unanswered before it is sent again."""

ACKNOWLEDGE_S = 5.0
"""How long after its grace a node may take to confirm that no rank is left."""


def apply(platform: Platform, event: Event) -> None:
    """One event; what belongs to an attempt that is over changes nothing."""
    if isinstance(event, NodeSeen):
        seen(platform, event)
        return
    attempt = platform.attempts.get(event.job)
    if attempt is None or attempt.number != event.attempt:
        if isinstance(event, TaskStarted):
            platform.outbox.append(EndTasks(event.job, event.attempt, event.node, platform.settings.grace_s))
        return
    job = platform.world.jobs[event.job]
    if isinstance(event, TaskStarted):
        _started(platform, job, attempt, event)
    elif isinstance(event, TaskExited):
        _exited(platform, job, attempt, event)
    elif isinstance(event, TasksEnded):
        _ended(platform, job, attempt, event)
    elif isinstance(event, TaskStalled):
        _stalled(platform, job, attempt, event)
    else:
        _progressed(platform, attempt, event)


def _started(platform: Platform, job: Job, attempt: Attempt, event: TaskStarted) -> None:
    attempt.started.add(event.rank)
    platform.batch.touch_attempt(attempt)
    if attempt.running and attempt.state is AttemptState.STARTING:
        attempt.started_at = event.at
        platform.move_attempt(attempt, AttemptEvent.STARTED)
        if job.started_at is None:
            job.started_at = event.at
        platform.move(job, JobEvent.STARTED)
        warm(platform, job, attempt)


def _exited(platform: Platform, job: Job, attempt: Attempt, event: TaskExited) -> None:
    if event.rank in attempt.exits:
        return
    attempt.exits[event.rank] = RankExit(
        event.rank, event.node, event.at, event.code, event.signal, event.lost, event.tail
    )
    platform.batch.touch_attempt(attempt)
    if attempt.state not in (AttemptState.STARTING, AttemptState.RUNNING):
        return
    if event.code != 0 or event.lost:
        fault(platform, job, attempt, f"rank {event.rank} ended on {event.node}")
    elif attempt.finished:
        if attempt.started_at is None:
            attempt.started_at = attempt.created_at
        finish(platform, job, attempt)


def finish(platform: Platform, job: Job, attempt: Attempt) -> None:
    """Every rank ended with 0: the job is complete and gives its nodes back."""
    attempt.cause = "completed"
    platform.move_attempt(attempt, AttemptEvent.END)
    platform.world.give(job)
    platform.move(job, JobEvent.COMPLETE)
    platform.outbox.extend(end_commands(platform, attempt, keep_warm=False))
    cool(platform, job.id, attempt.number)


def _stalled(platform: Platform, job: Job, attempt: Attempt, event: TaskStalled) -> None:
    platform.note("stall", job, rank=event.rank, node=event.node, stall=event.kind, evidence=event.evidence)
    attempt.stalls.append(Stall(event.rank, event.node, event.at, event.kind, event.evidence))
    platform.batch.touch_attempt(attempt)
    spec = platform.spec(job)
    fatal = event.kind in FATAL_STALLS or (
        event.kind == "spike" and spec.restart.on_spoilt_loss == "rollback"
    )
    if fatal and attempt.state in (AttemptState.STARTING, AttemptState.RUNNING):
        fault(platform, job, attempt, f"rank {event.rank} on {event.node}: {event.kind}")


def _progressed(
    platform: Platform, attempt: Attempt, event: StepReported | CheckpointSaved | Resumed
) -> None:
    if event.rank != 0:
        return
    if isinstance(event, CheckpointSaved):
        attempt.checkpoint_step, attempt.checkpoint_at = event.step, event.at
        platform.world.jobs[attempt.job].last_checkpoint_at = event.at
    elif isinstance(event, Resumed):
        _resumed(platform, attempt, event.step)
    else:
        if attempt.first_step is None:
            attempt.first_step = event.step
            if attempt.number > 1 and attempt.resumed_from is None:
                _resumed(platform, attempt, max(event.step - 1, 0))
        attempt.last_step = max(attempt.last_step or 0, event.step)
        platform.batch.step(attempt.job, attempt.number, event.step, event.at, event.loss)
    platform.batch.touch_attempt(attempt)


def _resumed(platform: Platform, attempt: Attempt, step: int) -> None:
    """Where the attempt went on, and how many steps of the one before it are done again."""
    attempt.resumed_from = step
    past = [item for item in platform.store.attempts(attempt.job) if item.number < attempt.number]
    reached = max((item.last_step for item in past if item.last_step is not None), default=None)
    attempt.lost_steps = 0 if reached is None else max(reached - step, 0)


def fault(platform: Platform, job: Job, attempt: Attempt, words: str) -> None:
    """Something broke: ends every rank, keeps the nodes."""
    attempt.fault_at = platform.clock()
    attempt.quiet.clear()
    platform.move_attempt(attempt, AttemptEvent.FAULT)
    platform.move(job, JobEvent.FAULT, why=words)
    platform.outbox.extend(end_commands(platform, attempt, keep_warm=True))
    settle(platform, job, attempt)


def _ended(platform: Platform, job: Job, attempt: Attempt, event: TasksEnded) -> None:
    if attempt.state not in (AttemptState.HOLDING, AttemptState.STOPPING):
        return
    attempt.quiet.add(event.node)
    platform.batch.touch_attempt(attempt)
    settle(platform, job, attempt)


def settle(platform: Platform, job: Job, attempt: Attempt) -> None:
    """Goes on when no rank can be alive any more."""
    if not attempt.all_quiet():
        return
    if attempt.state is AttemptState.HOLDING:
        attempt.held_at = platform.clock()
        platform.move_attempt(attempt, AttemptEvent.QUIET)
        platform.note("held", job, quiet=sorted(attempt.quiet), lost=sorted(attempt.lost))
    elif attempt.state is AttemptState.STOPPING:
        attempt.cause = attempt.cause or job.cause or str(job.target or JobState.CANCELLED)
        platform.move_attempt(attempt, AttemptEvent.END)
        platform.world.give(job)
        platform.stopped(job)
        cool(platform, job.id, attempt.number)


def seen(platform: Platform, event: NodeSeen) -> None:
    """A heartbeat: the node is up; ranks of attempts that are over are ended."""
    if event.node not in platform.world.pool.index:
        return
    platform.seen[event.node] = max(event.at, platform.seen.get(event.node, 0.0))
    if not platform.world.pool.up[platform.world.pool.index[event.node]]:
        platform.world.pool.set_up(event.node, value=True)
        platform.note("node", None, node=event.node, change="up")
        platform.dirty = True
    for name, number in event.attempts:
        attempt = platform.attempts.get(name)
        if attempt is None or attempt.number > number or event.node not in attempt.nodes:
            platform.outbox.append(EndTasks(name, number, event.node, platform.settings.grace_s))
        elif event.node in attempt.lost:
            platform.outbox.append(
                EndTasks(name, number, event.node, platform.settings.grace_s, keep_warm=True)
            )
    _restarted(platform, event)
    if event.condition is not None and event.condition != platform.conditions.get(event.node):
        conditions.take(platform, event.node, event.condition)


def _restarted(platform: Platform, event: NodeSeen) -> None:
    """A node that was started anew is asked for the ranks that it should have."""
    before = platform.boots.get(event.node)
    platform.boots[event.node] = event.boot_id
    if before is None or before == event.boot_id:
        return
    for attempt in platform.attempts.values():
        if event.node in attempt.nodes and attempt.state is AttemptState.RUNNING:
            platform.outbox.extend(item for item in attend_commands(attempt) if item.node == event.node)


def lost(platform: Platform, node: str) -> None:
    """A node fell silent: it is down, and the attempts on it are held."""
    now = platform.clock()
    last = platform.seen.pop(node, platform.started_at)
    if node not in platform.world.pool.index:
        return
    if platform.world.pool.up[platform.world.pool.index[node]]:
        platform.world.pool.set_up(node, value=False)
        platform.note("node", None, node=node, change="lost", last_seen=last)
        platform.dirty = True
    for attempt in list(platform.attempts.values()):
        if node not in attempt.nodes:
            continue
        attempt.lost[node] = LostNode(node, last, now)
        platform.batch.touch_attempt(attempt)
        job = platform.world.jobs[attempt.job]
        if attempt.state in (AttemptState.STARTING, AttemptState.RUNNING):
            fault(platform, job, attempt, f"node {node} is silent since {now - last:.1f} s")
        else:
            settle(platform, job, attempt)


def watch_deadlines(platform: Platform, now: float) -> None:
    """Starts that hang, nodes that do not confirm, jobs over their time."""
    for attempt in list(platform.attempts.values()):
        job = platform.world.jobs[attempt.job]
        if attempt.state is AttemptState.STARTING:
            _hurry(platform, job, attempt, now)
        elif attempt.state in (AttemptState.HOLDING, AttemptState.STOPPING):
            _insist(platform, job, attempt, now)
        if _over_time(job, now):
            job.cause = "time_limit"
            stop(platform, job, JobState.FAILED, why=f"the time limit of {job.time_s:g} s is over")


def _over_time(job: Job, now: float) -> bool:
    if job.time_s is None or job.started_at is None or now - job.started_at <= job.time_s:
        return False
    return job.state in (JobState.RUNNING, JobState.HELD, JobState.RESUMING)


def _hurry(platform: Platform, job: Job, attempt: Attempt, now: float) -> None:
    """Sends a start again that may have been lost on its way; gives up after the limit."""
    over = now - attempt.created_at > platform.settings.start_limit_s
    if not over and now - platform.sent_at.get(attempt.job, attempt.created_at) <= SEND_AGAIN_S:
        return
    missing = {slot.rank for slot in attempt.slots} - attempt.started - set(attempt.exits)
    if over:
        words = f"ranks {sorted(missing)[:8]} did not start in {platform.settings.start_limit_s:g} s"
        fault(platform, job, attempt, words)
    elif missing:
        platform.sent_at[attempt.job] = now
        late = {slot.node for slot in attempt.slots if slot.rank in missing}
        commands = start_commands(platform, job, attempt)
        platform.outbox.extend(command for command in commands if command.node in late)


def _insist(platform: Platform, job: Job, attempt: Attempt, now: float) -> None:
    """Asks again for what was not confirmed.  A held job does not wait for ever: the next attempt's
    start on a node ends what is left of the one before."""
    since = attempt.fault_at or attempt.created_at
    limit = platform.settings.grace_s + ACKNOWLEDGE_S
    if now - since < limit:
        return
    silent = [node for node in attempt.nodes if node not in attempt.quiet and node not in attempt.lost]
    if attempt.state is AttemptState.HOLDING:
        platform.note("unconfirmed", job, nodes=silent)
        attempt.quiet.update(silent)
        platform.batch.touch_attempt(attempt)
        settle(platform, job, attempt)
        return
    attempt.fault_at = now
    done = frozenset(attempt.quiet | set(attempt.lost))
    platform.outbox.extend(end_commands(platform, attempt, keep_warm=False, but=done))


def send_again(platform: Platform) -> None:
    """After a restart: every in-flight attempt's commands once more."""
    for attempt in platform.attempts.values():
        job = platform.world.jobs[attempt.job]
        if attempt.state is AttemptState.STARTING:
            platform.outbox.extend(start_commands(platform, job, attempt))
        elif attempt.state is AttemptState.RUNNING:
            platform.outbox.extend(attend_commands(attempt))
            warm(platform, job, attempt)
        elif attempt.state is AttemptState.HOLDING:
            platform.outbox.extend(end_commands(platform, attempt, keep_warm=True))
        elif attempt.state is AttemptState.STOPPING:
            platform.outbox.extend(end_commands(platform, attempt, keep_warm=False))
