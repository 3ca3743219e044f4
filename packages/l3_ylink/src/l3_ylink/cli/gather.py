"""`ylink data gather`: sites to WARC files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from l3_ylink._kit.command_line import err, out, show, show_json

if TYPE_CHECKING:
    from l3_ylink.datakit.gather.crawl.run import Tell

JSON = typer.Option(False, "--json", help="print JSON")


def gather(
    sites: list[str] = typer.Argument(help="addresses to begin with, http or https"),
    *,
    out_folder: Path = typer.Option(
        ..., "--out", help="folder for WARC files; the same again goes on, or asks what has changed"
    ),
    domain: list[str] = typer.Option(
        [], help="domain that may be visited with all below it; default: the sites' hosts only"
    ),
    contact: str = typer.Option("", help="page or mail address of who answers for this crawl"),
    agent: str = typer.Option("ylink", help="name that robots.txt rules are looked up by"),
    delay: float = typer.Option(
        1.0, help="least seconds between requests to a host; robots.txt may ask more"
    ),
    pages: int = typer.Option(10_000, help="pages of one host"),
    megabytes: float = typer.Option(2_000.0, help="megabytes of one host"),
    seconds: float = typer.Option(86_400.0, help="seconds for one host"),
    depth: int = typer.Option(100, help="links away from the first page"),
    longest: int = typer.Option(20_000_000, help="bytes of a page; a longer one is cut and marked"),
    timeout: float = typer.Option(60.0, help="seconds for one page"),
    private: bool = typer.Option(False, help="visit private, loopback and link-local addresses too"),
    as_json: bool = JSON,
) -> None:
    """Crawls sites politely into WARC files: robots.txt, delays, sitemaps, budgets; only what has changed."""
    from l3_ylink.datakit.gather.crawl.plan import parse_plan
    from l3_ylink.datakit.gather.crawl.run import crawl

    plan = parse_plan(
        {
            "seeds": sites, "domains": domain, "agent": agent, "contact": contact, "delay": delay,
            "budget": {"pages": pages, "bytes": round(megabytes * 1e6), "seconds": seconds},
            "longest": longest, "timeout": timeout, "depth": depth, "private": private,
        }
    )  # fmt: skip
    with _shown(quiet=as_json) as tell:
        made = crawl(plan, out_folder, tell)
    if as_json:
        show_json({**made.__dict__, "folder": str(made.folder), "files": [path.name for path in made.files]})
        return
    columns = ("host", "pages", "bytes", "seconds", "delay", "delay_of", "robots", "left_for", "waiting")
    show(made.hosts, columns, as_json=False)
    out.print(f"crawl {made.number}: " + ", ".join(f"{count} {how}" for how, count in made.outcomes.items()))
    for reason, about in made.refused.items():
        out.print(f"not visited, {reason}: {about['count']}, as {about['sample'][0]}", markup=False)
    if not made.finished:
        out.print("not finished: the same command goes on")
    out.print(f"files {len(made.files)} in {made.folder}", soft_wrap=True)


@contextmanager
def _shown(*, quiet: bool) -> Iterator[Tell]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def tell(counts: dict[str, Any]) -> None:
            words = f"{counts['pages']} pages, {counts['bytes'] / 1e6:.1f} MB, {counts['waiting']} waiting"
            bar.update(task, description=words)

        yield tell
