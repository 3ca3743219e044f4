"""What the commands share: the site, progress, tables."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from l0_infra_os._kit import logs
from l0_infra_os._kit.command_line import err
from l0_infra_os._kit.problems import BadInput
from l0_infra_os.settings import Settings

if TYPE_CHECKING:
    from l0_infra_os.infra import InfraOs
    from l0_infra_os.service.views import NodeView

Json = typer.Option(False, "--json", help="print JSON")
NODE_COLUMNS = ("id", "state", "power", "tenant", "role", "rack", "leaf", "flavor", "problem")
LEASE_COLUMNS = ("id", "tenant", "state", "members", "spare_nodes", "problem")


@contextlib.contextmanager
def site() -> Iterator[InfraOs]:
    """The site of the settings; warnings of the reconciler go to stderr."""
    from l0_infra_os.infra import InfraOs

    logs.set_up(level="ERROR")
    logging.getLogger("l0_infra_os").setLevel(logging.WARNING)
    with InfraOs(Settings.load()) as infra:
        yield infra


class Progress:
    """One line on stderr that says how many nodes are where; a new line only when that changes."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._last = ""
        self._live = sys.stderr.isatty() and not quiet

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live and self._last:
            err.print()

    def __call__(self, nodes: list[NodeView]) -> None:
        """Tells the states of the nodes that are waited for."""
        counts = Counter(node.state for node in nodes)
        line = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        troubles = [f"{node.id}: {node.problem}" for node in nodes if node.problem]
        line += f"  ({troubles[0]})" if troubles else ""
        if self.quiet or line == self._last:
            return
        self._last = line
        if self._live:
            err.print(f"\r\x1b[K{line[: err.width - 1]}", end="", markup=False)
        else:
            err.print(line, markup=False, soft_wrap=True)


def read_keys(files: list[Path]) -> list[str]:
    """Public keys from files, one a line; a private key is refused by name."""
    keys = []
    for path in files:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot be read: {error}", field=str(path)) from error
        if "PRIVATE KEY" in text:
            raise BadInput("is a private key", field=str(path), do=f"give {path}.pub")
        found = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        if not found:
            raise BadInput("holds no public key", field=str(path))
        keys += found
    return keys
