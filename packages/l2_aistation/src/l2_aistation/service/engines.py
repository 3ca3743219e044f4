"""The engines by name: the four that are shipped, or a third party's under the entry point group."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.metadata import entry_points

from l2_aistation._kit.problems import BadInput
from l2_aistation.adapters.this_machine import ThisMachine
from l2_aistation.core.events import Command
from l2_aistation.core.pool import ClusterFacts
from l2_aistation.ports import ClusterSource, Engine, EventSink
from l2_aistation.settings import Settings

from .platform import Platform

GROUP = "l2_aistation.engines"
SHIPPED = {name: f"l2_aistation.backends.{name}:create" for name in ("local", "agent", "slurm", "kubernetes")}

log = logging.getLogger(__name__)


def make_engine(name: str, settings: Settings) -> Engine:
    """The engine of a name; `BadInput` where there is none."""
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            create: Callable[[Settings], Engine] = entry.load()
            return create(settings)
    if name not in SHIPPED:
        raise BadInput(f"there is no engine {name!r}", field="engine", do=f"use one of {', '.join(SHIPPED)}")
    module, _, function = SHIPPED[name].partition(":")
    engine: Engine = getattr(importlib.import_module(module), function)(settings)
    return engine


def make_source(settings: Settings) -> ClusterSource:
    """Where the pool comes from until one is imported: Slurm where it is the engine, else this machine."""
    if settings.engine == "slurm":
        from l2_aistation.backends.slurm import SlurmCluster

        return SlurmCluster()
    return ThisMachine()


def check_engine(settings: Settings) -> None:
    """Says what the engine of the settings lacks before anything is started."""
    if settings.engine is not None:
        make_engine(settings.engine, settings)
        make_source(settings).cluster()


def with_engine(facts: ClusterFacts, settings: Settings) -> ClusterFacts:
    """An imported pool with the engine that the settings name."""
    if settings.engine is None:
        return facts
    engine = settings.engine
    return replace(facts, nodes=tuple(replace(node, engine=engine) for node in facts.nodes))


class Engines:
    """Opens engines when nodes need them and routes each command to its node's engine."""

    def __init__(self, settings: Settings, make: Callable[[str, Settings], Engine] = make_engine) -> None:
        self.settings = settings
        self.make = make
        self.open_ones: dict[str, Engine] = {}
        self.closed = False

    def need(self, names: Iterable[str], sink: EventSink) -> None:
        """Opens those that are not open yet."""
        if self.closed:
            return
        for name in sorted(set(names) - set(self.open_ones)):
            engine = self.make(name, self.settings)
            engine.open(sink)
            self.open_ones[name] = engine

    def send(self, platform: Platform, commands: Iterable[Command]) -> None:
        """Hands commands over; what fails is sent again by the platform's own deadlines."""
        pool = platform.world.pool
        for command in commands:
            place = pool.index.get(command.node)
            if place is None:
                continue
            engine = self.open_ones.get(pool.facts[place].engine)
            try:
                if engine is not None:
                    engine.send(command)
            except Exception:
                log.exception("command to %s failed", command.node)

    def close(self) -> None:
        """Closes all; tasks go on."""
        self.closed = True
        engines, self.open_ones = self.open_ones, {}
        for engine in engines.values():
            engine.close()
