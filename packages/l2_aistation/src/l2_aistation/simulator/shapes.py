"""Cluster shapes: `64x8`, `1250x8/leaf32/spine8`, or a CSV file of nodes.

`NxA` is N nodes of A accelerators; `/leafL` puts L nodes under each leaf switch, `/spineS` puts S
leaves under each spine.  Without them all nodes hang on one switch.  A node has 16 cores and 256 GiB
for each accelerator (16 cores where it has none).

The CSV file (plain or .gz) has a header row with `node`, `gpus` and any of `cpu_milli`, `memory_mib`,
`gpu_model`, `leaf`, `spine`, `rack`.
"""

from __future__ import annotations

import re
from pathlib import Path

from l2_aistation._kit.problems import BadInput
from l2_aistation.core.pool import MOST_ACCELERATORS, AcceleratorFacts, NodeFacts

from .traces.rows import Row, header_of, rows_of

SHAPE = re.compile(r"(\d{1,7})x(\d{1,3})(?:/leaf(\d{1,6}))?(?:/spine(\d{1,6}))?")
MOST_NODES = 100_000
CORES = 16
MEMORY = 256 << 30


def cluster(shape: str) -> list[NodeFacts]:
    """The nodes of a shape; `BadInput` says what is wrong with it."""
    found = SHAPE.fullmatch(shape)
    if found is None:
        if Path(shape).is_file():
            return from_csv(Path(shape))
        raise BadInput(
            f"{shape!r} is neither a shape nor a file of nodes",
            field="cluster",
            do="write NODESxACCELERATORS, as 64x8 or 1250x8/leaf32/spine8, or name a CSV file",
        )
    nodes, each, per_leaf, per_spine = (int(part) if part else 0 for part in found.groups())
    if not 1 <= nodes <= MOST_NODES or each > MOST_ACCELERATORS:
        raise BadInput(
            f"{shape!r} is out of range",
            field="cluster",
            do=f"use 1 to {MOST_NODES} nodes of at most {MOST_ACCELERATORS} accelerators",
        )
    if 0 in (per_leaf, per_spine) and re.search(r"/(leaf|spine)0", shape):
        raise BadInput(
            f"{shape!r} has an empty switch", field="cluster", do="use leaf1 or more, spine1 or more"
        )
    cards = _cards(each, "gpu")
    return [_node(number, cards, per_leaf, per_spine) for number in range(nodes)]


def _node(number: int, cards: tuple[AcceleratorFacts, ...], per_leaf: int, per_spine: int) -> NodeFacts:
    leaf = number // per_leaf if per_leaf else 0
    spine = leaf // per_spine if per_spine else 0
    share = max(len(cards), 1)
    return NodeFacts(
        f"n{number}", CORES * share, MEMORY * share, cards, leaf=f"leaf{leaf:04d}", spine=f"spine{spine:04d}"
    )


def _cards(count: int, model: str) -> tuple[AcceleratorFacts, ...]:
    return tuple(AcceleratorFacts(index, "", model) for index in range(count))


def from_csv(path: Path) -> list[NodeFacts]:
    """Nodes of a CSV file, in its order."""
    header = header_of(path)
    for name in ("node", "gpus"):
        if name not in header:
            raise BadInput(
                f"has no column {name!r}", field=str(path), do="see the header in the documentation"
            )
    nodes = [_of_row(row) for row in rows_of(path)]
    if not nodes:
        raise BadInput("has no node", field=str(path))
    if len({node.id for node in nodes}) != len(nodes):
        raise BadInput("two nodes have one name", field=str(path))
    return nodes


def _of_row(row: Row) -> NodeFacts:
    count = row.whole("gpus", most=MOST_ACCELERATORS)
    share = max(count, 1)
    return NodeFacts(
        row.text("node"),
        row.whole("cpu_milli", CORES * share * 1000) // 1000,
        row.whole("memory_mib", MEMORY * share >> 20) << 20,
        _cards(count, row.text("gpu_model", "gpu") or "gpu"),
        leaf=row.text("leaf", "leaf0000"),
        spine=row.text("spine", "spine0000"),
        rack=row.text("rack", "rack"),
    )
