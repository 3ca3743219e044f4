"""`aistation what-if`: would a waiting job start, were something different?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from l2_aistation._kit.command_line import out, show_json
from l2_aistation._kit.problems import BadInput

from .common import AsJson, JobId, Url, app, client


@app.command("what-if")
def what_if(  # noqa: PLR0917 (typer's way: a parameter is an option)
    job: JobId,
    nodes: Annotated[int | None, typer.Option(min=0, help="so many more nodes like the largest")] = None,
    cap: Annotated[list[str] | None, typer.Option(help="QUEUE=N: a queue's cap in accelerators")] = None,
    without: Annotated[list[str] | None, typer.Option(help="a job that is gone")] = None,
    queue: Annotated[str | None, typer.Option(help="the job in another queue")] = None,
    priority: Annotated[int | None, typer.Option(help="the job with another priority")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="the job with so many tasks")] = None,
    accelerators: Annotated[int | None, typer.Option(min=1, help="with so many each")] = None,
    time_s: Annotated[float | None, typer.Option(help="with another time limit")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a waiting job would start if something were different; nothing is changed."""
    given: dict[str, Any] = {
        "nodes": nodes,
        "caps": _caps(cap or []),
        "without": without,
        "queue": queue,
        "priority": priority,
        "count": count,
        "accelerators": accelerators,
        "time_s": time_s,
    }
    with client(url) as aistation:
        answer = aistation.what_if(job, **{name: value for name, value in given.items() if value is not None})
    if as_json:
        show_json(answer)
        return
    when = f" {answer['at']}" if answer["starts"] == "at" else ""
    out.print(f"{answer['starts']}{when}: {answer['words']}", markup=False, soft_wrap=True)
    if answer["leaves"]:
        out.print("on " + ", ".join(f"{leaf} x {count}" for leaf, count in answer["leaves"].items()))
    if answer["victims"]:
        names = ", ".join(other or "one of another tenant" for other in answer["victims"])
        out.print(f"after these have left: {names}", soft_wrap=True)


def _caps(texts: list[str]) -> dict[str, int]:
    caps = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not number.isascii() or not number.isdigit():
            raise BadInput(f"{text!r} is not QUEUE=N", field="cap", do="write --cap gold=128")
        caps[name] = int(number)
    return caps
