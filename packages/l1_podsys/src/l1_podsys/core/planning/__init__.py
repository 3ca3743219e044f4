"""From what is wanted and what is there to a plan: a list of differences per host, nothing else."""

from .desired import Sources, desired_state, questions_for
from .diff import plan_host
from .plan import Change, HostPlan, Plan, make_plan, remaining
from .profile import Profile
from .run_states import FINISHED, TRANSITIONS, Pair, PairState, RunEvent, fold, next_state

__all__ = [
    "FINISHED",
    "TRANSITIONS",
    "Change",
    "HostPlan",
    "Pair",
    "PairState",
    "Plan",
    "Profile",
    "RunEvent",
    "Sources",
    "desired_state",
    "fold",
    "make_plan",
    "next_state",
    "plan_host",
    "questions_for",
    "remaining",
]
