"""A cluster on paper: thousands of nodes that start, run and end whatever they are told, at no cost.

For trials of the service and its pages at sizes that no machine at hand has: everything but the nodes
is the real thing.

    settings = Settings.load(home=folder, node_lost_s=60)
    cluster = PaperCluster(1250)
    service = Service(settings, make=PaperEngine.of(cluster).make, source=cluster)
    fill(service, 10_000)
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ._kit.tokens import Principal
from .core.events import Command, EndTasks, Event, NodeSeen, StartTasks, TasksEnded, TaskStarted
from .core.pool import AcceleratorFacts, ClusterFacts, NodeFacts
from .core.queue import Queue
from .ports import EventSink
from .service import Service, submission
from .service.platform import Platform
from .service.specs import CheckedSpec, check_spec
from .settings import Settings

NAME = "paper"
BEAT_S = 2.0


@dataclass(frozen=True)
class PaperCluster:
    """Equal nodes under leaves of `per_leaf`, eight leaves a spine; the last node of a leaf is a spare
    in every fourth leaf."""

    nodes: int
    accelerators: int = 8
    per_leaf: int = 32
    models: Sequence[str] = ("H100", "H100", "H100", "A800")

    def cluster(self) -> ClusterFacts:
        """The facts; a leaf has one model."""
        return ClusterFacts("paper", tuple(self._node(number) for number in range(self.nodes)))

    def _node(self, number: int) -> NodeFacts:
        leaf = number // self.per_leaf
        model = self.models[leaf % len(self.models)]
        cards = tuple(
            AcceleratorFacts(place, "nvidia", model, 80 << 30, numa=2 * place // max(self.accelerators, 1))
            for place in range(self.accelerators)
        )
        return NodeFacts(
            id=f"n{number:04d}",
            cpu_cores=128,
            memory_bytes=1 << 40,
            accelerators=cards,
            leaf=f"leaf{leaf:02d}",
            spine=f"spine{leaf // 8}",
            rack=f"rack{number // 8:03d}",
            spare=leaf % 4 == 3 and number % self.per_leaf == self.per_leaf - 1,
            engine=NAME,
        )


class PaperEngine:
    """Says at once that what it was told to start has started, and what to end has ended."""

    name = NAME

    def __init__(self, nodes: Sequence[str]) -> None:
        self.nodes = list(nodes)
        self.silent: set[str] = set()
        self.told: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.stopping = threading.Event()

    @classmethod
    def of(cls, cluster: PaperCluster) -> PaperEngine:
        """An engine with the nodes of a cluster."""
        return cls([node.id for node in cluster.cluster().nodes])

    def make(self, _name: str, _settings: Settings) -> PaperEngine:
        """What a service makes its engines with: this one, whatever the name."""
        return self

    def open(self, sink: EventSink) -> None:
        """Begins to beat and to answer."""
        self.sink = sink
        self.threads = [
            threading.Thread(target=work, name=f"paper-{work.__name__}", daemon=True)
            for work in (self._beat, self._answer)
        ]
        for thread in self.threads:
            thread.start()

    def send(self, command: Command) -> None:
        """Takes a command; the answer comes from another thread."""
        self.told.put(command)

    def close(self) -> None:
        """Stops beating and answering."""
        self.stopping.set()
        self.told.put(None)
        for thread in self.threads:
            thread.join(timeout=10)

    def _beat(self) -> None:
        while not self.stopping.is_set():
            now = time.time()
            self.sink([NodeSeen(node, now) for node in self.nodes if node not in self.silent])
            self.stopping.wait(BEAT_S)

    def _answer(self) -> None:
        while not self.stopping.is_set():
            commands = [self.told.get()]
            while not self.told.empty():
                commands.append(self.told.get())
            events = [event for command in commands for event in self._events(command)]
            if events and not self.stopping.is_set():
                self.sink(events)

    def _events(self, command: Command | None) -> list[Event]:
        now = time.time()
        if isinstance(command, StartTasks):
            return [
                TaskStarted(command.job, command.attempt, command.node, task.rank, now)
                for task in command.tasks
            ]
        if isinstance(command, EndTasks):
            return [TasksEnded(command.job, command.attempt, command.node, now)]
        return []


ROOTS = {"language": 0.4, "vision": 0.3, "speech": 0.2}
"""Topmost queues and their guarantee as a share of the pool."""

BELOW = {"prod": 0.5, "research": 0.3, "dev": 0.1}
TENANTS = {"ann": "red", "bob": "red", "chen": "blue", "dora": "blue", "emil": "green", "fang": "green"}
SIZES = (1, 1, 1, 1, 2, 4, 8, 8, 16, 32, 64, 128, 256)
NAMES = ("pretrain", "finetune", "sweep", "eval", "rlhf", "notebook")
AT_ONCE = 200


def set_queues(service: Service) -> list[str]:
    """A tree of queues over the pool; the names of those that take jobs."""
    total = service.platform.world.totals.accelerators
    queues = [
        Queue(name, guarantee_accelerators=int(total * share), cap_accelerators=int(total * share * 1.6))
        for name, share in ROOTS.items()
    ]
    queues += [
        Queue(
            f"{root}-{name}",
            parent=root,
            guarantee_accelerators=int(total * share * part),
            cap_accelerators=int(total * share),
        )
        for root, share in ROOTS.items()
        for name, part in BELOW.items()
    ]

    def put(platform: Platform) -> None:
        for queue_ in queues:
            platform.put_queue(queue_)

    service.call(put)
    return ["default", *(one.name for one in queues if one.parent is not None)]


def fill(service: Service, count: int, *, seed: int = 0) -> None:
    """Submits that many jobs of six users of three tenants to a tree of queues."""
    rng = random.Random(seed)
    queues = set_queues(service)
    total = service.platform.world.totals.accelerators
    sizes = [size for size in SIZES if size == 1 or size * 4 <= total]
    specs: dict[tuple[int, str, str], CheckedSpec] = {}

    def submit_one(platform: Platform) -> None:
        size, queue_name, name = rng.choice(sizes), rng.choice(queues), rng.choice(NAMES)
        shape = (size, queue_name, name)
        if shape not in specs:
            specs[shape] = check_spec(spec_of(size, queue_name, name, rng.choice((3600, 7200, 86_400))))
        user = rng.choice(list(TENANTS))
        submission.submit(platform, Principal(TENANTS[user], "user", user), specs[shape])

    def some(most: int, platform: Platform) -> None:
        for _ in range(most):
            submit_one(platform)

    for done in range(0, count, AT_ONCE):
        most = min(AT_ONCE, count - done)
        service.call(partial(some, most), timeout_s=300)


def spec_of(accelerators: int, queue_name: str, name: str, time_s: float) -> dict[str, Any]:
    """A job-spec for so many accelerators, eight a task."""
    each = min(accelerators, 8)
    task = {
        "count": max(accelerators // 8, 1),
        "command": ["true"],
        "resources": {"cpu_cores": each * 8, "accelerators": each},
    }
    return {"name": name, "queue": queue_name, "tasks": [task], "limits": {"time_s": time_s}}
