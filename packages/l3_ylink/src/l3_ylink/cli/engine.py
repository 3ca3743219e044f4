"""The engine of a data run, from the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from l3_ylink._kit.problems import BadInput

if TYPE_CHECKING:
    from l3_ylink.datakit.engines import Engine
    from l3_ylink.ports import JobRunner
    from l3_ylink.settings import Settings


class Place(NamedTuple):
    """Where a run is to be done."""

    engine: str
    runner: str
    url: str | None
    token_file: Path | None
    queue: str
    shared: Path | None


@contextmanager
def engine_for(place: Place, settings: Settings) -> Iterator[Engine | None]:
    """The engine, closed afterwards; None is the local one."""
    from l3_ylink.datakit.engines import make_engine

    if place.engine == "jobs" and place.runner == "aistation" and place.shared is None:
        raise BadInput(
            "is needed with --runner aistation", field="--shared", do="name the folder that all nodes mount"
        )
    engine = make_engine(place.engine, runner=lambda: _runner(place, settings), shared=place.shared)
    try:
        yield engine
    finally:
        if engine is not None:
            engine.close()


def _runner(place: Place, settings: Settings) -> JobRunner:
    from .train import runner_maker

    folder = settings.state_dir / "data-jobs"
    return runner_maker(place.runner, folder, place.url, place.token_file, place.queue)(1)
