"""Lanes of a kind refused at once: the same as refusing each of them, job by job."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from l2_aistation.core.demand import Demand, TaskDemand
from l2_aistation.core.job import Job
from l2_aistation.core.refusal import Refusal
from l2_aistation.core.states import JobState
from l2_aistation.core.turns import Turns
from l2_aistation.core.waiting import Key, Waiting, lane_key

DEMANDS = [Demand((TaskDemand("w", 1, 1000, accelerators=count),), 1) for count in (1, 2)]
LIMITS = ("accelerators", "promise")


@dataclass
class OneByOne:
    """What lanes were before there were kinds: each has its refusal and the jobs that were not told."""

    refusal: Refusal | None = None
    untold: list[str] = field(default_factory=list)

    def refuse(self, refusal: Refusal, jobs: list[str]) -> list[str]:
        before, self.refusal = self.refusal, refusal
        told = jobs if before is None or before.limit != refusal.limit else self.untold
        self.untold = []
        return list(told)


class Both:
    """The lanes and their yardstick."""

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.jobs: dict[str, Job] = {}
        self.lanes: dict[Key, OneByOne] = {}

    def come(self, number: int, where: tuple[int, int, int, int], at: int) -> None:
        queue, demand, owner, ran = where
        job = Job(f"j{number}", "t", f"q{queue}", 0, float(at), DEMANDS[demand], owner=f"u{owner}")
        job.ran_s = 3600.0 * ran
        self.jobs[job.id] = job
        self.waiting.refresh(job)
        self.lanes.setdefault(lane_key(job), OneByOne()).untold.append(job.id)

    def go(self, name: str) -> None:
        job = self.jobs.pop(name)
        key = lane_key(job)
        job.state = JobState.CANCELLED
        self.waiting.refresh(job)
        if not self.members(key):
            del self.lanes[key]
        elif name in self.lanes[key].untold:
            self.lanes[key].untold.remove(name)

    def members(self, key: Key) -> list[str]:
        return [name for name, job in self.jobs.items() if lane_key(job) == key]

    def refuse(self, name: str, refusal: Refusal, *, whole: bool) -> None:
        lane = self.waiting.of[name]
        keys = list(lane.kind.lanes) if whole else [lane.key]
        told = lane.kind.refuse(refusal) if whole else lane.refuse(refusal)
        expected = [one for key in keys for one in self.lanes[key].refuse(refusal, self.members(key))]
        assert sorted(job.id for job, _ in told) == sorted(expected)

    def check(self) -> None:
        for name, job in self.jobs.items():
            assert self.waiting.refusal(name) is self.lanes[lane_key(job)].refusal
        assert self.waiting.same_as(self.jobs.values())
        for kind in self.waiting.kinds.values():
            entries = [entry[:2] for lane in kind.lanes.values() for entry in lane.entries]
            head = kind.head()
            assert head is not None
            assert head.entries[0][:2] == min(entries)


@given(st.data())
def test_a_kind_is_refused_as_each_of_its_lanes_would_be(data: st.DataObject) -> None:
    """Refusals, and who is told of them, are those of lanes on their own, whatever comes and goes."""
    both = Both()
    place = st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2), st.integers(0, 1))
    for number in range(data.draw(st.integers(1, 30))):
        what = data.draw(st.sampled_from(("come", "come", "go", "one", "all")))
        if what == "come" or not both.jobs:
            both.come(number, data.draw(place), data.draw(st.integers(0, 5)))
        elif what == "go":
            both.go(data.draw(st.sampled_from(sorted(both.jobs))))
        else:
            refusal = Refusal(data.draw(st.sampled_from(LIMITS)), "no")
            both.refuse(data.draw(st.sampled_from(sorted(both.jobs))), refusal, whole=what == "all")
        both.check()


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2), st.integers(0, 5)), max_size=20
    )
)
def test_turns_of_kinds_are_those_of_their_lanes(places: list[tuple[int, int, int, int]]) -> None:
    """One job of each lane is looked at in order of submission, however the lanes are put together."""
    both = Both()
    for number, (queue, demand, owner, at) in enumerate(places):
        both.come(number, (queue, demand, owner, 0), at)

    def order(*, whole: bool) -> list[str]:
        waiting = both.waiting
        items = list(waiting.kinds.values()) if whole else list(waiting.lanes.values())
        turns = Turns(items, lambda job: (job.queue,), lambda: 0, lambda lane: lane.first.queue)
        seen = []
        while (lane := turns.peek()) is not None:
            seen.append(lane.first.id)
            turns.close(lane)
        return seen

    expected = sorted((lane.first.queue, *lane.entries[0][:2]) for lane in both.waiting.lanes.values())
    assert order(whole=True) == order(whole=False) == [name for _, _, name in expected]
